"""Does an IOMMU stand between the GPUs, and does it translate?

    no group                         no IOMMU, or a file that does not tell of groups
    a group, its type identity       in the way, and lets addresses pass
    a group, its type DMA, DMA-FQ    translates: peer writes vanish, or hit other devices

The type of the group decides; where no file has it, the kernel's word for the default.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.picture import Picture
from harness.devices.pcie.kernel_events import Kind
from harness.procedures.analysis.diagnosis import Diagnosis, Severity

_CAUSE = "the kernel was started with an IOMMU that translates, as distributions do"
_DO = "start the kernel with iommu=pt (or switch VT-d off in the firmware's setup) before any peer traffic"


def judge_iommu(picture: Picture) -> Iterator[Diagnosis]:
    """The groups of the GPUs where a file tells them; one GPU alone has no peer."""
    gpus = picture.on_bus
    grouped = [function for function in gpus if function.iommu_group is not None]
    default = next((event for event in reversed(picture.events) if event.kind is Kind.DOMAIN_TYPE), None)
    translating = [function for function in grouped if function.iommu_group and function.iommu_group.type not in ("", "identity")]
    told = {function.iommu_group.type for function in grouped if function.iommu_group and function.iommu_group.type}
    if len(gpus) < 2:
        return
    if translating:
        kinds = ", ".join(sorted({function.iommu_group.type for function in translating if function.iommu_group}))
        yield Diagnosis(
            Severity.FAIL,
            "iommu",
            f"{len(translating)} GPUs",
            f"the IOMMU translates for them ({kinds}): peer writes are dropped or hit other devices",
            "; ".join(f"{function.bdf} group {function.iommu_group.id}" for function in translating[:6] if function.iommu_group),
            "",
            _CAUSE,
            _DO,
            tuple(function.bdf for function in translating),
        )
    elif default is not None and not told and default.words["type"].lower().startswith("translated"):
        yield Diagnosis(
            Severity.WARN,
            "iommu",
            f"{len(gpus)} GPUs",
            "the kernel's IOMMU translates by default: peer traffic is at risk unless these GPUs' groups are set apart",
            default.line,
            picture.source_of(default.line),
            _CAUSE,
            f"read /sys/kernel/iommu_groups/*/type; {_DO}",
        )
    elif grouped:
        groups = len({function.iommu_group for function in grouped})
        kind = f"of type {', '.join(sorted(told))}" if told else "whose type no file tells"
        yield Diagnosis(Severity.NOTE, "iommu", f"{len(grouped)} GPUs", f"an IOMMU runs: they are in {groups} groups {kind}")
