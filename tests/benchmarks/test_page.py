"""How long the page of a large run takes; the figures are printed. The goals: 10,000 measurements in under 2 s and 30 MB."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from harness.limits import at_least
from harness.measurement import Measurement
from harness.part import Part
from harness.record.ledger import Ledger
from harness.record.reader import read_record
from harness.report.page import render_html

MEASUREMENTS = 10_000
MB = 1_000_000


@pytest.fixture
def large(tmp_path):
    """A run of twenty GPUs with all pairs many times over."""
    ledger = Ledger(tmp_path / "results.jsonl", str)
    ledger.write("run", id="large", mode="live", source="hardware", bench="r640-07", stages=["p2p"])
    slots = [f"jbog{chassis}/slot{number:02d}" for chassis in "AB" for number in range(1, 11)]
    for at in range(MEASUREMENTS):
        slot = slots[at % 20]
        value = Measurement(
            f"p2p.write.{at}", 12.0 + at % 7, "GB/s", at_least(11, "GB/s", marginal=12.5), Part(slot, serial=f"S{at}"), 1.0
        )
        ledger.measurement(value, case=f"p2p.write[{slot}]", check="p2p.write")
    for slot in slots:
        ledger.write("case", case=f"p2p.write[{slot}]", check="p2p.write", stage="p2p", slot=slot, outcome="passed")
    pairs = [[one, other, 12.5, 1.7, 0, ""] for one in range(20) for other in range(20) if one != other]
    ledger.write("exhibit", name="p2p", data={"gpus": [[f"0000:{at:02x}:00.0", ""] for at in range(20)], "pairs": pairs})
    ledger.write("end", verdict="PASSED", exit=0)
    ledger.close()
    return read_record(ledger.path)


@pytest.mark.slow
def test_ten_thousand_measurements_make_a_page_within_the_goals(large, capsys):
    began = time.process_time()
    text = render_html(large)
    took = time.process_time() - began
    tracemalloc.start()
    render_html(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with capsys.disabled():
        print(
            f"\npage of {MEASUREMENTS} measurements: {took:.2f} s, {len(text.encode()) / MB:.1f} MB, {peak / MB:.0f} MB of memory"
        )
    assert text.count("p2p.write.9999<") == 1
    assert took < 2
    assert len(text.encode()) < 30 * MB
