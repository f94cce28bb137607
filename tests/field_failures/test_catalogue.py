from __future__ import annotations

import re
from pathlib import Path

from harness.cli.lab import describe_faults
from harness.lab.faults.idrac import FAULTS, NUMBERED

NUMBERS = [*(str(number) for number in range(1, 28)), "27b", "28", "29", "30"]


def test_every_failure_has_a_fault_and_a_test_by_its_number():
    assert list(dict.fromkeys(number for number, _ in NUMBERED)) == NUMBERS
    texts = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    tested = {number.lstrip("0") for name in re.findall(r"def test_((?:\d\d\w?_)+)", texts) for number in name.split("_") if number}
    assert set(NUMBERS) - tested == set()


def test_every_fault_is_used_by_a_test_and_has_a_source():
    texts = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert [fault.id for fault in FAULTS if f'"{fault.id.removeprefix("idrac.")}"' not in texts] == []
    assert [fault.id for fault in FAULTS if not fault.source or not fault.does] == []
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)


def test_the_catalogue_is_listed_with_sources():
    lines = describe_faults("idrac")
    assert len(lines) == len(FAULTS)
    assert any("idrac.pr30-for-ever" in line and "NVIDIA/libredfish" in line for line in lines)
