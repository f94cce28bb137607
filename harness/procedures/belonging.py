"""Whose PCI tree it is: that of the machine which the BMC restarted, or that of another one which answers under its name.

serial number of the firmware = service tag ──▶ it is ours
boot id changed with our reset, and is still the same ──▶ it is ours
neither known ──▶ not measured
"""

from __future__ import annotations

from harness.devices.pcie import HostFacts
from harness.procedures.boot import BootStory
from harness.procedures.finding import Finding, taken


def judge_belonging(host: HostFacts, boot: BootStory | None, service_tag: str) -> Finding:
    """``boot`` is None where no boot was watched in this run; ``service_tag`` is the one that the bench pins."""
    named = (("pcie.machine", host.serial), ("pcie.boot-id", host.boot_id))
    seen = tuple(taken(name, value, "", note=host.machine) for name, value in named if value)
    if host.serial and host.serial != service_tag:
        return Finding(
            seen,
            bench=f"the operating system that answers runs on {host.machine or 'a machine'} {host.serial}, and the BMC is that of "
            f"{service_tag}: correct the bench's [host] or [console]; nothing of that machine is judged",
        )
    if boot is not None and boot.boot_id and host.boot_id and boot.boot_id != host.boot_id:
        return Finding(
            seen,
            f"the machine restarted by itself after it had come up: boot id {boot.boot_id} then, {host.boot_id} now; see the "
            "Lifecycle log and the console for why",
        )
    if host.serial or (boot is not None and _restarted_with_our_reset(boot)):
        return Finding(seen)
    return Finding(
        seen,
        unmeasured="nothing proves that this operating system runs on the pinned machine: its serial number can be read by root "
        "only, and no reset of this run changed its boot id",
    )


def _restarted_with_our_reset(boot: BootStory) -> bool:
    return boot.reset is not None and bool(boot.boot_id) and bool(boot.previous_boot_id) and boot.boot_id != boot.previous_boot_id
