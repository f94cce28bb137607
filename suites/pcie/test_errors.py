"""Has anything on the way to a part failed since the machine started?"""

from __future__ import annotations

import pytest

from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable, NotMeasured
from harness.limits import Outcome, exactly
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.links import (
    errors_unread,
    explain_link_errors,
    fatal_counts,
    fatal_errors,
    hops,
    is_express,
    link_errors,
    trouble_lines,
    why_unread,
)


@pytest.mark.check("pcie.errors")
def test_no_hop_reports_a_fatal_error(slot: Slot, platform: Platform, pcie: Snapshot, measure: Measure) -> None:
    """A failure means that a port or the part stored a fatal error (AER), or that the kernel counted one and cleared it.

    Firmware that handles errors first may have kept it from the kernel's log. Corrected errors of the link fail where the platform
    limits them.
    """
    found = fatal_errors(pcie, slot)
    for function, bits in found:
        measure(f"pcie.fatal-errors.{function.bdf}", f"{bits:#010x}", limit=exactly("0x00000000"), part=slot)
    counted = fatal_counts(pcie, slot)
    for function, counts in counted:
        named = ", ".join(f"{name} {count}" for name, count in counts.items())
        measure(f"pcie.fatal-count.{function.bdf}", sum(counts.values()), limit=exactly(0), part=slot, note=named)
    unread = errors_unread(pcie, slot)
    if not any(is_express(hop) is not False for hop in hops(pcie, slot.path)):
        raise NotApplicable(f"nothing on the path of {slot} is PCI Express, so nothing has error registers")
    if unread and not found and not counted:
        raise NotMeasured(f"error registers of {', '.join(hop.bdf for hop in unread)}: {why_unread(pcie, unread)}")
    measure("pcie.fatal-errors", len(found), limit=exactly(0), part=slot)
    corrected = link_errors(pcie, slot)
    for errors in corrected:
        measure(f"pcie.link-errors.{errors.function.bdf}", " ".join(errors.names), part=slot)
    limit = platform.pcie.ports_with_link_errors
    measure("pcie.ports-with-link-errors", len(corrected), limit=limit, part=slot)
    assert limit is None or limit.judge(len(corrected)) != Outcome.FAIL, explain_link_errors(slot, corrected)


@pytest.mark.check("pcie.kernel-log")
def test_the_kernel_reports_no_failure_on_the_way(slot: Slot, pcie: Snapshot, measure: Measure) -> None:
    """A failure means that a link dropped, a port was contained or a device did not come back, even if it works now."""
    lines = trouble_lines(pcie, slot)
    if not lines and any(unread.what.startswith("the kernel log") for unread in pcie.unread):
        raise NotMeasured(why_unread(pcie))
    measure("pcie.trouble-lines", len(lines), limit=exactly(0), part=slot)
    assert not lines, "the kernel log says:\n" + "\n".join(f"  {line}" for line in lines)
