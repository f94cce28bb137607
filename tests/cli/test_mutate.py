"""``bringup tape mutate``: a machine that lies on the tape is noticed, by the check that is there for it."""

from __future__ import annotations

import pytest

from harness.cli import mutate as command
from harness.cli.mutate import mutate
from harness.errors import UsageMistake
from harness.locator import find_tape
from harness.plugin.mutations import RULES
from harness.tape.mutants import Rule

NOTICED = {
    "another-machine": "bmc.identity",
    "not-read-back": "bios.readback",
    "old-firmware": "bmc.firmware",
    "narrow-link": "pcie.width",
    "aer-errors": "pcie.errors",
    "xid": "gpu.xids",
    "gpu-ecc": "gpu.ecc",
    "bad-bytes": "p2p.integrity",
    "slow-pair": "p2p.path",
    "slow-windows": "resnet50.spread",
}


@pytest.mark.slow
def test_no_change_of_the_model_s_tape_passes_unnoticed_and_the_check_that_is_there_for_it_notices_first():
    """One mutant of every rule: a width, a region, a count, a job's state, a pair's bytes, a status and all the others."""
    said: list[str] = []
    status = mutate(find_tape("model-lqd8360", None), [], most=1, say=said.append, progress=lambda _: None)
    *lines, summary = said
    assert status == 0, "\n".join(line for line in lines if line.startswith("NOT NOTICED"))
    first = {line.split(": ")[1]: line.split()[2].partition("[")[0].rstrip(":") for line in lines if line.startswith("noticed")}
    assert {name: first[name] for name in NOTICED} == NOTICED
    excused = [line for line in lines if line.startswith("excused")]
    assert all(line.rstrip(")").rpartition(" (")[2] for line in excused)
    assert summary.startswith(f"{len(lines)} mutants: {len(first)} noticed, {len(excused)} excused, 0 not noticed")
    assert len(first) > 40


@pytest.mark.slow
def test_no_change_of_the_virtual_machine_s_tape_passes_unnoticed():
    said: list[str] = []
    assert mutate(find_tape("virtual-r640", None), [], most=1, say=said.append, progress=lambda _: None) == 0, "\n".join(said)


@pytest.mark.slow
def test_a_change_that_no_check_notices_is_told_and_fails_and_an_excuse_does_not(monkeypatch):
    quiet = Rule("quiet", "host", "agent nvml.*", "gpu.persistence", lambda _: None)
    excused = Rule("excused", "host", "agent nvml.*", "gpu.persistence", lambda _: None, excuse="nothing depends on it")
    nowhere = Rule("nowhere", "host", "agent nvml.*", "gpu.no-such-field", lambda _: 1)
    monkeypatch.setattr(command, "RULES", (quiet, excused, nowhere))
    said: list[str] = []
    assert mutate(find_tape("model-lqd8360", None), [], most=1, say=said.append, progress=lambda _: None) == 1
    assert said[0].startswith("NOT NOTICED: quiet: session/gpus: agent nvml")
    assert said[1].startswith("excused: excused: ")
    assert said[-1] == "2 mutants: 0 noticed, 1 excused, 1 not noticed; nothing on this tape fits nowhere"


def test_an_unknown_rule_names_those_that_there_are():
    with pytest.raises(UsageMistake, match="no rule 'typo'; the rules are another-machine, "):
        mutate(find_tape("model-lqd8360", None), ["typo"], most=1, say=print, progress=print)


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)
