"""Copies under an IOMMU that translates: refused, unless the person at the keyboard names the danger; and a replay knows of it."""

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from harness.errors import UsageMistake
from harness.plugin.launch import launch
from harness.plugin.prepare import prepare
from harness.plugin.run import headline_before
from harness.plugin.settings import Settings
from harness.tape.header import read_info

STAGES = ("gpu", "p2p")


def run(folder, *, mode="live", force=False, faults=("pcie.iommu",)):
    settings = Settings(
        bench="model-lqd8360", mode=mode, force_p2p=force, stages=STAGES, faults=faults, report=folder / "r", tapes=folder / "t"
    )
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return launch(settings)


def cases_of(run, check):
    return [case for case in run.cases if case.check == check]


def test_copies_are_refused_and_every_check_of_them_is_blocked_with_the_reason(tmp_path):
    cases = cases_of(run(tmp_path), "p2p.integrity")
    assert {case.outcome for case in cases} == {"blocked"}
    assert "the IOMMU translates for 20 of 20 GPUs" in cases[0].message


def test_forced_copies_are_made_and_what_they_corrupt_is_caught(tmp_path):
    cases = cases_of(run(tmp_path, force=True), "p2p.integrity")
    assert {case.outcome for case in cases} == {"failed"}
    assert "DATA CORRUPTION jbogA/slot01 -> jbogA/slot02: do not use" in cases[0].message


def test_the_first_line_of_a_forced_run_says_the_danger():
    forced = prepare(Settings(mode="live", force_p2p=True))
    assert "--force-p2p: GPUs copy even where an IOMMU translates, which can overwrite the memory" in headline_before(forced)
    assert "--force-p2p" not in headline_before(prepare(Settings(mode="live")))


def test_a_tape_of_a_forced_run_says_so_and_replays(tmp_path):
    recorded = run(tmp_path, mode="record", force=True, faults=())
    assert recorded.verdict.exit == 0
    assert read_info(tmp_path / "t" / "model-lqd8360").force_p2p
    replayed = run(tmp_path, mode="replay", faults=())
    assert [case.outcome for case in replayed.cases] == [case.outcome for case in recorded.cases]


def test_a_replay_cannot_be_forced():
    with pytest.raises(UsageMistake, match="--force-p2p copies on a machine; a replay touches none"):
        prepare(Settings(mode="replay", force_p2p=True))
