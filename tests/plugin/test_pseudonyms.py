"""A tape under pseudonyms replays on the bench of its machine, which pins the real name."""

import pytest

from harness import locator
from harness.tape.format import Tape
from harness.tape.pseudonyms import write_pseudonymous


@pytest.mark.parametrize("bench", ["model-lqd8360", "virtual-r640"])
def test_a_bundled_tape_replays_under_pseudonyms_case_by_case_as_before(bringup, tmp_path, bench):
    stages = ("--stage", "bmc", "--stage", "pcie")
    real = locator.shipped() / "fixtures" / "tapes" / bench
    write_pseudonymous(Tape.open(real), tmp_path / "tapes" / bench)
    before = bringup("run", "--bench", bench, "--replay", *stages)
    after = bringup("run", "--bench", bench, "--replay", *stages, "--tapes", str(tmp_path / "tapes"))
    assert after.status == before.status == 0, after.out + after.err
    outcomes = [{case: line["outcome"] for case, line in done.cases.items()} for done in (before, after)]
    assert outcomes[0] == outcomes[1]
    assert "(a pseudonym)" in " ".join(after.out.split())
    tag = Tape.open(real).info.identity["service_tag"]
    assert tag not in (after.run_folder / "results.jsonl").read_text()
