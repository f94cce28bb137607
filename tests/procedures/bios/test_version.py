from __future__ import annotations

import pytest

from harness.platform import Bios
from harness.procedures.bios.version import objection, suspicion


@pytest.mark.parametrize(
    ("version", "wanted", "said"),
    [
        ("2.21.2", Bios(), ""),
        ("2.10.0", Bios(minimum="2.9.4"), ""),
        ("2.9.4", Bios(minimum="2.9.4"), ""),
        ("2.9.3", Bios(minimum="2.9.4"), "older than 2.9.4"),
        ("2.4.7", Bios(deny=("2.4.7",)), "deny list"),
        ("2.4.70", Bios(deny=("2.4.7",)), ""),
        ("", Bios(), "does not tell"),
    ],
)
def test_versions_are_compared_number_by_number(version, wanted, said):
    assert said in objection(version, wanted)
    assert bool(said) == bool(objection(version, wanted))


@pytest.mark.parametrize(
    ("version", "wanted", "said"),
    [
        ("2.4.7", Bios(deny=("2.4.7",)), "BIOS 2.4.7 is on the platform's deny list (2.4.7)"),
        ("2.4.8", Bios(deny=("2.4.7",)), "BIOS 2.4.8 is not on the platform's deny list (2.4.7)"),
        ("2.4.8", Bios(), "not on the platform's deny list (empty)"),
        ("", Bios(), "BIOS of unknown version is not on"),
    ],
)
def test_a_start_that_loops_is_held_against_the_deny_list(version, wanted, said):
    assert said in suspicion(version, wanted)
