"""Waivers on whole runs: what they let go, what they never do, and where each use shows."""

import csv
import io
import re
import shutil

import pytest
from junitparser import JUnitXml

from harness.record.reader import read_record
from harness.report.formats import render_as

ENTRY = """
[[waiver]]
check = "{check}"
platform = "lqd8360"
{more}
reason = "card is being replaced"
ticket = "LAB-7"
owner = "night shift"
expires = {expires}
"""

BOTH = """
import pytest
from harness.errors import BenchError, DeviceError

@pytest.fixture
def cable():
    yield
    raise BenchError("the cable fell out")

@pytest.mark.check("own.both")
def test_both(cable):
    raise DeviceError("no")
"""
FAR = """
name = "far"
platform = "lqd8360"
service_tag = "ABC1234"
[bmc]
url = "https://192.0.2.1"
user = "root"
password = {{ env = "NOT_SET" }}
pin = "sha256:{pin}"
"""


@pytest.fixture
def waived(bringup, tmp_path):
    """Run one stage of the modelled machine with faults and waivers, given as (check, line more, last day)."""

    def run(stage, faults, *entries, more=()):
        file = tmp_path / "waivers.toml"
        texts = (ENTRY.format(check=check, more=line, expires=expires) for check, line, expires in entries)
        file.write_text("".join(texts))
        switched = [word for fault in faults for word in ("--fault", fault)]
        words = ("--bench", "model-lqd8360", "--live", "--stage", stage, *switched, "--waivers", str(file), *more)
        return bringup("run", *words)

    return run


def test_a_waived_failure_fails_nothing_and_shows_in_every_output(waived):
    done = waived("gpu", ["gpu.ecc"], ("gpu.ecc", "driver = { matches = '.+' }", "2999-01-01"))
    assert done.status == 0, done.out + done.err
    (case,) = [line for line in done.cases.values() if line["outcome"] == "waived"]
    assert case["check"] == "gpu.ecc"
    assert case["waiver"] == {
        "check": "gpu.ecc",
        "ticket": "LAB-7",
        "owner": "night shift",
        "expires": "2999-01-01",
        "reason": "card is being replaced",
        "outcome": "failed",
    }
    assert "FAIL" in case["message"]
    assert case["blame"] == "product"
    who = "LAB-7 (night shift, until 2999-01-01): card is being replaced"
    shown = " ".join(done.out.split())
    assert "PASSED: nothing failed" in shown
    assert "; 1 waived" in shown
    assert who in shown
    page = (done.run_folder / "report.html").read_text()
    assert 'id="waived"' in page
    assert "LAB-7" in page.split('id="waived"')[1]
    record = read_record(done.run_folder)
    for form in ("md", "ocp"):
        text = render_as(form)(record)
        assert "1 waived" in text
        assert "LAB" in text
    assert 'outcome="waived"' in render_as("prometheus")(record)
    rows = list(csv.DictReader(io.StringIO(render_as("csv")(record))))
    assert {row["case"] for row in rows if row["case_outcome"] == "waived"} == {case["case"]}
    assert {row["waiver"] for row in rows if row["case"] == case["case"]} == {who}
    assert "fail" in {row["outcome"] for row in rows if row["case"] == case["case"]}
    suites = JUnitXml.fromfile(str(done.run_folder / "junit.xml"))
    (skipped,) = [case for suite in suites for case in suite if case.is_skipped]
    assert skipped.name == case["case"]
    assert skipped.result[0].message.startswith(f"WAIVED by {who}")
    assert "FAIL" in skipped.result[0].text
    assert suites.failures == suites.errors == 0


def test_an_expired_waiver_waives_nothing_and_says_whose_it_was(waived):
    done = waived("gpu", ["gpu.ecc"], ("gpu.ecc", "", "2026-01-31"))
    assert done.status == 1
    (failed,) = [line for line in done.cases.values() if line["check"] == "gpu.ecc" and line["outcome"] == "failed"]
    assert "not waived: it expired after 2026-01-31; LAB-7 (night shift, until 2026-01-31)" in failed["message"]
    assert any("was not used: it expired" in line["text"] for line in done.lines if line["kind"] == "note")


def test_a_waiver_for_other_firmware_waives_nothing(waived):
    done = waived("gpu", ["gpu.ecc"], ("gpu.ecc", 'driver = "1.2.3"', "2999-01-01"))
    assert done.status == 1
    assert "not waived: it is for driver 1.2.3, and the machine has" in " ".join(done.out.split())


@pytest.mark.slow
def test_a_waiver_opens_no_gate(waived):
    done = waived("pcie", ["pcie.chain-link"], ("pcie.chain-link", "", "2999-01-01"))
    assert done.status == 3, done.out
    outcomes = {line["outcome"] for line in done.cases.values() if line["slot"] == "jbogB/slot07"}
    assert {"waived", "blocked"} <= outcomes
    (ended,) = [line for line in done.lines if line["kind"] == "stage" and line["state"] == "ended" and line["stage"] == "pcie"]
    assert (ended["gate"], ended["lost"]) == ("degraded", ["jbogB/slot07"])


@pytest.mark.slow
def test_what_the_bench_failed_is_never_waived(waived):
    done = waived("boot", ["boot.host-reach"], ("boot.host-reach", "", "2999-01-01"))
    assert done.status == 3, done.out
    assert done.cases["boot.host-reach"]["outcome"] == "error"


@pytest.mark.slow
def test_what_was_blocked_is_waived_only_by_its_own_name(waived):
    mine, other = "pcie.width[jbogA/slot01]", "pcie.width[jbogA/slot02]"
    for entries, outcome in ((("pcie.width",), "blocked"), ((mine,), "waived")):
        done = waived("boot", ["boot.host-reach"], *((name, "", "2999-01-01") for name in entries), more=("--stage", "pcie"))
        assert done.status == 3, done.out
        assert (done.cases[mine]["outcome"], done.cases[other]["outcome"]) == (outcome, "blocked")


@pytest.mark.slow
def test_a_waived_failure_hides_no_failure_of_the_bench_after_it(bringup, tmp_path):
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "test_both.py").write_text(BOTH)
    file = tmp_path / "waivers.toml"
    file.write_text(ENTRY.format(check="own.both", more="", expires="2999-01-01"))
    words = ("--bench", "model-lqd8360", "--live", "--stage", "bmc", "--suite", str(checks), "--waivers", str(file))
    done = bringup("run", *words)
    assert done.status == 1, done.out
    case = done.cases["own.both"]
    assert case["outcome"] == "failed"
    assert "afterwards (bench): the cable fell out" in case["message"]
    assert "not waived: only what the product alone failed is waived" in case["message"]


def test_a_wrong_waivers_file_is_told_before_a_secret_is_read(bringup, tmp_path):
    (tmp_path / "w.toml").write_text("x =")
    bench = tmp_path / "far.toml"
    bench.write_text(FAR.format(pin="1" * 64))
    done = bringup("run", "--bench", str(bench), "--live", "--waivers", str(tmp_path / "w.toml"))
    assert done.status == 2
    assert "w.toml: not valid TOML" in done.err
    assert "NOT_SET" not in done.err


@pytest.mark.slow
def test_two_replays_with_one_file_write_the_same_record(waived, bringup, tmp_path):
    seen = waived("gpu", ["gpu.ecc"], ("gpu.ecc", "", "2999-01-01"))
    shutil.copytree(seen.run_folder / "tape", tmp_path / "tapes" / "model-lqd8360")
    words = ("--replay", "--tapes", str(tmp_path / "tapes"), "--stage", "gpu", "--waivers", str(tmp_path / "waivers.toml"))
    first, second = (bringup("run", "--bench", "model-lqd8360", *words) for _ in range(2))
    assert first.status == second.status == 0, first.out + first.err
    assert first.lines[1:] == second.lines[1:]
    assert [line["waiver"]["ticket"] for line in first.cases.values() if line["outcome"] == "waived"] == ["LAB-7"]


def test_a_waiver_that_was_not_used_is_told_and_the_file_is_summed(waived):
    done = waived("bmc", [], ("pcie.width[jbogA/slot01]", "", "2999-01-01"))
    assert done.status == 0
    assert "waiver of pcie.width[jbogA/slot01] was not used: nothing that it could let go came up" in " ".join(done.out.split())
    assert re.fullmatch("[0-9a-f]{64}", done.lines[0]["checksums"]["waivers"])


def test_a_waiver_of_no_known_check_is_refused_before_anything_is_touched(waived):
    done = waived("bmc", [], ("pcie.widht", "", "2999-01-01"))
    assert (done.status, done.out) == (2, "")
    assert "no check or case 'pcie.widht'; did you mean 'pcie.width'" in done.err
    assert not (done.folder / "reports").exists()


@pytest.mark.slow
def test_a_run_with_waived_cases_makes_no_tape(waived, tmp_path):
    more = ("--record", "--tapes", str(tmp_path / "tapes"))
    done = waived("gpu", ["gpu.ecc"], ("gpu.ecc", "", "2999-01-01"), more=more)
    assert done.status == 0, done.out + done.err
    assert "was not written: only a run in which everything passed makes one" in " ".join(done.out.split())
    assert not (tmp_path / "tapes").exists()
