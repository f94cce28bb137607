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
def test_each_change_is_noticed_by_the_check_that_is_there_for_it():
    said: list[str] = []
    status = mutate(find_tape("model-lqd8360", None), list(NOTICED), most=1, say=said.append, progress=lambda _: None)
    *lines, summary = said
    assert {line.split(": ")[1]: line.split()[2].partition("[")[0].rstrip(":") for line in lines} == NOTICED
    assert (status, summary.split("; ")[0]) == (0, f"{len(NOTICED)} mutants: {len(NOTICED)} noticed, 0 excused, 0 not noticed")


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
