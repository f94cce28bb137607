"""What changes while the way to a part is watched, and what may."""

import pytest

from harness.devices.pcie import Function, Snapshot
from harness.devices.pcie.watch import Sample, Watch
from harness.limits import Outcome, at_most
from harness.platform import Slot
from harness.procedures.steadiness import judge_error_rate, judge_steadiness

ROOT, PORT, GPU = "0000:3a:00.0", "0000:3c:01.0", "0000:3d:00.0"
SLOT = Slot(name="box/1", path="pci0000:3a/00.0/00.0/01.0/00.0")
TREE = Snapshot(
    (
        Function(ROOT, "pci0000:3a/00.0"),
        Function("0000:3b:00.0", "pci0000:3a/00.0/00.0", ROOT),
        Function(PORT, "pci0000:3a/00.0/00.0/01.0", "0000:3b:00.0"),
        Function(GPU, SLOT.path, PORT),
    )
)
BUDGET = at_most(8, "/min")


def watched(**series):
    """Samples three seconds apart; ``widths``, ``speeds`` and ``errors`` map an address to its values."""
    count = max(len(values) for kind in series.values() for values in kind.values())
    samples = []
    for number in range(count):
        told = {kind: {bdf: values[number] for bdf, values in of.items() if number < len(values)} for kind, of in series.items()}
        samples.append(Sample(3.0 * number, told.get("widths", {}), told.get("speeds", {}), told.get("errors", {})))
    return Watch(tuple(samples))


def failed(finding):
    return [measured.name for measured in finding.measurements if measured.outcome is Outcome.FAIL]


def test_links_that_stay_as_they_are_pass():
    finding = judge_steadiness(TREE, SLOT, watched(widths={ROOT: (16, 16), PORT: (16, 16), GPU: (16, 16)}))
    assert (failed(finding), finding.explanation, finding.unmeasured) == ([], "", "")


@pytest.mark.parametrize("bdf", [ROOT, PORT, GPU])
def test_a_width_that_changes_at_any_hop_is_named_with_least_and_most(bdf):
    finding = judge_steadiness(TREE, SLOT, watched(widths={ROOT: (16, 16, 16), bdf: (16, 8, 16)}))
    assert failed(finding) == [f"pcie.width-changes.{bdf}", "pcie.link-changes"]
    assert f"{bdf}: x8 to x16, 2 changes in 3 samples of 6 s" in finding.explanation


def test_the_speed_of_an_uplink_must_not_change_and_that_of_the_gpu_s_own_link_may():
    steady = {ROOT: (16, 16), PORT: (16, 16), GPU: (16, 16)}
    own = judge_steadiness(TREE, SLOT, watched(widths=steady, speeds={PORT: (2.5, 8.0), GPU: (2.5, 8.0)}))
    assert (failed(own), own.explanation) == ([], "")
    assert {measured.name: measured.value for measured in own.measurements}["pcie.own-speed-changes"] == 2
    above = judge_steadiness(TREE, SLOT, watched(widths=steady, speeds={ROOT: (8.0, 2.5)}))
    assert failed(above) == [f"pcie.speed-changes.{ROOT}", "pcie.link-changes"]
    assert "2.5 to 8 GT/s" in above.explanation


def test_a_path_that_was_not_sampled_twice_is_not_measured():
    assert judge_steadiness(TREE, SLOT, watched(widths={ROOT: (16,)})).unmeasured
    assert judge_steadiness(TREE, SLOT, watched(widths={"0000:ff:00.0": (16, 16)})).unmeasured


def test_old_errors_pass_and_new_ones_are_judged_by_their_rate_at_the_worst_hop():
    old = judge_error_rate(TREE, SLOT, watched(errors={ROOT: (150, 150), GPU: (9, 9)}), BUDGET)
    assert (failed(old), old.explanation) == ([], "")
    new = judge_error_rate(TREE, SLOT, watched(errors={ROOT: (150, 150), PORT: (0, 6)}), BUDGET)
    assert failed(new) == ["pcie.corrected-errors"]
    assert f"{PORT} corrected 120 errors a minute" in new.explanation


def test_counters_that_the_kernel_does_not_keep_are_not_measured_and_never_nought():
    finding = judge_error_rate(TREE, SLOT, watched(widths={ROOT: (16, 16)}), BUDGET)
    assert finding.unmeasured
    assert finding.measurements == ()
