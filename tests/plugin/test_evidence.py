"""What was seen when something failed lies beside the record before anybody restarts the machine again."""

import pytest

from harness.errors import BenchError, CommandFailed, Unreachable
from harness.plugin.evidence import MOST, Evidence
from harness.procedures.first_failure import MARK, _marked, take_from_host


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


PIECES = ("kernel-log.txt", "pcie-errors.txt", "nvml.jsonl", "lc-log.txt", "console.txt")


@pytest.mark.parametrize(
    ("stage", "fault", "check"),
    [
        ("pcie", "pcie.chain-link", "pcie.chain-link[jbogB/slot07]"),
        pytest.param("gpu", "gpu.ecc", "gpu.ecc[jbogA/slot06]", marks=pytest.mark.slow),
        pytest.param("p2p", "p2p.integrity.dropped", None, marks=pytest.mark.slow),
        pytest.param("resnet50", "resnet50.straggler", None, marks=pytest.mark.slow),
    ],
)
def test_the_first_failure_of_a_stage_keeps_what_the_machine_shows_and_its_replay_has_it_too(
    bringup, tmp_path, stage, fault, check
):
    live = bringup("run", "--bench", "model-lqd8360", "--live", "--stage", "bmc", "--stage", stage, "--fault", fault)
    first = check or live.failed[0]
    kept = [f"evidence/{stage}-{name}" for name in PIECES]
    assert live.cases[first]["attachments"] == kept
    log, errors, nvml, lc, console = [(live.run_folder / path).read_text() for path in kept]
    assert "NVRM: loading NVIDIA UNIX" in log
    assert "functions without errors, at their full link" in errors
    assert '"kind": "gpu"' in nvml
    assert lc
    assert not any(text.startswith(("could not", "not asked")) for text in (log, errors, nvml, lc, console))
    others = [case for case, line in live.cases.items() if line["attachments"] and line["check"] != live.cases[first]["check"]]
    assert others == []
    again = bringup("run", "--bench", "model-lqd8360", "--replay", "--tapes", str(live.run_folder / "tape"))
    assert again.status == 1, again.out + again.err
    assert again.cases[first]["attachments"] == kept
    assert [(again.run_folder / path).read_text() for path in kept] == [log, errors, nvml, lc, console]


def test_a_recording_without_evidence_replays_without(bringup):
    done = bringup("run", "--bench", "virtual-r640", "--replay", "--tapes", "virtual-r640-bus-numbers")
    assert done.status == 1
    assert not (done.run_folder / "evidence").exists()


def test_the_kernel_log_is_marked_where_it_had_been_read_before():
    assert list(_marked(["a", "b", "c"], ["a", "b"])) == ["a", "b", MARK, "c"]
    assert list(_marked(["a", "b"], ["a", "b"])) == ["a", "b", MARK]
    assert list(_marked(["b", "c"], ["a", "b"])) == ["b", "c"]


class Dead:
    """A host that answers a number of times and then no more."""

    def __init__(self, answers, error):
        self.left, self.error, self.asked = answers, error, 0

    def kernel_log(self):
        self.asked += 1
        if self.asked > self.left:
            raise self.error
        return ("line",)

    def agent(self, *_, **__):
        self.asked += 1
        raise self.error


def test_a_host_that_does_not_answer_is_asked_once_and_each_piece_says_why():
    host = Dead(0, Unreachable("no route to host"))
    found = take_from_host(host, ())
    assert found == {
        "kernel-log.txt": "could not be kept: no route to host\n",
        "pcie-errors.txt": "not asked: the host did not answer before: no route to host\n",
        "nvml.jsonl": "not asked: the host did not answer before: no route to host\n",
    }
    assert host.asked == 1


def test_a_worker_that_breaks_costs_its_own_piece_only():
    host = Dead(1, CommandFailed("agent", 1, "no such file"))
    found = take_from_host(host, ())
    assert found["kernel-log.txt"] == "line\n"
    assert found["pcie-errors.txt"].startswith("could not be kept: ")
    assert found["nvml.jsonl"].startswith("could not be kept: ")
