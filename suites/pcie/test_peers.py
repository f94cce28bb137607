"""Is the way between two GPUs straight: no redirection, no translation, one payload size?"""

from __future__ import annotations

from collections import Counter

import pytest

from harness.devices.pcie import Snapshot
from harness.errors import NotApplicable, NotMeasured
from harness.limits import exactly
from harness.platform import Platform, Slot
from harness.plugin.measuring import Measure
from harness.procedures.chain import Chain
from harness.procedures.links import access_control, payloads, why_unread


@pytest.mark.check("pcie.acs")
def test_no_bridge_between_gpus_redirects(slot: Slot, platform: Platform, pcie: Snapshot, chain: Chain, measure: Measure) -> None:
    """A failure sends peer traffic up to the processor: slow, or hanging. Kernels with an IOMMU switch redirection on."""
    if platform.gpu is None:
        raise NotApplicable("the platform has no GPUs, so no traffic between them")
    seen = access_control(pcie, slot, [platform.slot(name) for name in chain.present])
    if seen.redirecting:
        measure("pcie.acs-redirecting", ", ".join(bridge.bdf for bridge in seen.redirecting), part=slot)
    elif seen.unread:
        raise NotMeasured(f"access control of {', '.join(bridge.bdf for bridge in seen.unread)}: {why_unread(pcie, seen.unread)}")
    measure("pcie.acs-redirects", len(seen.redirecting), limit=platform.pcie.acs_redirect_between_gpus, part=slot)


@pytest.mark.check("pcie.iommu")
def test_no_iommu_translates_between_gpus(slot: Slot, platform: Platform, pcie: Snapshot, chain: Chain, measure: Measure) -> None:
    """A failure makes peer writes vanish or hit other devices: start the kernel with iommu=off or iommu=pt."""
    if platform.gpu is None:
        raise NotApplicable("the platform has no GPUs, so no traffic between them")
    function = pcie.at(slot.path)
    assert function is not None, chain.explain(slot)
    note = "the kernel runs an IOMMU but does not tell the type of this domain"
    measure("pcie.iommu", pcie.iommu(function), limit=platform.pcie.iommu, part=slot, note=note)


@pytest.mark.check("pcie.mps")
def test_the_payload_size_is_the_same_all_the_way(slot: Slot, platform: Platform, pcie: Snapshot, measure: Measure) -> None:
    """A failure loses packets that are larger than the next hop takes; a rescan or a hot-plug leaves such a mix behind."""
    sizes = payloads(pcie, slot)
    if not sizes:
        raise NotApplicable(f"nothing on the path of {slot} is PCI Express")
    unread = [function for function, size in sizes if size is None]
    if unread:
        raise NotMeasured(f"payload size of {', '.join(hop.bdf for hop in unread)}: {why_unread(pcie, unread)}")
    common = Counter(size for _, size in sizes if size is not None).most_common(1)[0][0]
    for number, (_, size) in enumerate(sizes, start=1):
        measure(f"pcie.max-payload.hop{number}", size, limit=exactly(common, "B"), part=slot)
    limit = platform.pcie.max_payload if platform.gpu is not None else None
    measure("pcie.max-payload", common, limit=limit, unit="B", part=slot)
