"""What was seen when something failed lies beside the record before anybody restarts the machine again."""

import pytest

from harness.errors import BenchError
from harness.plugin.evidence import MOST, Evidence


def test_a_halt_leaves_screen_console_and_log_beside_its_case(bringup):
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--apply", "--fault", "boot.post-halt", "--stage", "boot")
    kept = done.cases["boot.post-halt"]["attachments"]
    assert kept == ["evidence/boot-screen.png", "evidence/boot-console.txt", "evidence/boot-lc-log.txt"]
    screen, console, log = [done.run_folder / path for path in kept]
    assert screen.read_bytes().startswith(b"\x89PNG")
    assert "A problem was found. Press F1" in console.read_text()
    assert "PST0080" in log.read_text()
    assert "boot video: GET /redfish/v1/" in done.cases["boot.post-halt"]["message"]
    assert all(line["attachments"] == [] for case, line in done.cases.items() if case != "boot.post-halt")
    assert "evidence/boot-screen.png" in (done.run_folder / "junit.xml").read_text()


def test_a_post_that_stands_still_under_a_bios_job_leaves_its_screen(bringup):
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--apply", "--fault", "idrac.memory-halt", "--stage", "bios")
    (check,) = done.failed
    assert check == "bios.job-state"
    assert "no progress in POST" in done.cases[check]["message"]
    assert done.cases[check]["attachments"] == ["evidence/bios-screen.png", "evidence/bios-screen.txt"]


def test_a_healthy_run_leaves_no_evidence_folder(bringup):
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--apply", "--stage", "boot")
    assert done.status == 0
    assert not (done.run_folder / "evidence").exists()


def test_texts_are_masked_and_their_end_is_kept(tmp_path):
    evidence = Evidence(lambda text: text.replace("hunter2", "****"))
    evidence.keep(tmp_path, "boot.post-halt", {"console.txt": "x" * MOST + "password hunter2 typed", "nothing.txt": ""})
    assert evidence.of("boot.post-halt") == ("evidence/console.txt",)
    kept = (tmp_path / "evidence" / "console.txt").read_text()
    assert kept.endswith("x" * 10 + "password **** typed")
    assert len(kept) == MOST


def test_a_picture_that_is_too_large_is_left_out(tmp_path):
    evidence = Evidence(str)
    evidence.keep(tmp_path, "boot.post-halt", {"screen.png": bytes(MOST + 1)})
    assert evidence.of("boot.post-halt") == ()


def test_a_disk_that_takes_no_evidence_is_the_bench_s(tmp_path):
    (tmp_path / "evidence").write_text("a file in the way")
    with pytest.raises(BenchError, match="cannot keep evidence"):
        Evidence(str).keep(tmp_path, "boot.post-halt", {"console.txt": "said"})
