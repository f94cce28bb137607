"""What the driver has reported of a GPU since the machine started: its error numbers (Xid) in the kernel log.

number ─┬─ of the GPU, its memory or its link ─▶ fails, even where the GPU works now
        └─ of a program, or a change of state ─▶ recorded, with what it means
"""

from __future__ import annotations

from harness.devices.gpu import Gpu, Inventory
from harness.devices.pcie import Xid, parse_kernel_log
from harness.devices.pcie.xids import meaning_of
from harness.limits import exactly
from harness.procedures.finding import Finding, taken


def judge_xids(slot: str, gpu: Gpu, inventory: Inventory) -> Finding:
    """Has the driver reported a fault of this GPU or of the way to it? Unmeasured where the kernel log could not be read."""
    if inventory.kernel_error:
        return Finding(unmeasured=f"{slot}: the kernel log could not be read: {inventory.kernel_error}")
    found = _xids_of(gpu, inventory)
    faults = [xid for xid in found if meaning_of(xid.number).is_hardware]
    note = ", ".join(f"Xid {xid.number}: {meaning_of(xid.number).means}" for xid in found)
    measured = taken("gpu.xids", len(faults), slot, exactly(0), note=note)
    return Finding((measured,), "\n".join(line for xid in faults for line in _told(slot, xid)))


def _xids_of(gpu: Gpu, inventory: Inventory) -> tuple[Xid, ...]:
    address = gpu.address.lower().rpartition(".")[0]
    return tuple(xid for xid in parse_kernel_log(inventory.kernel).xids if xid.address == address)


def _told(slot: str, xid: Xid) -> tuple[str, str]:
    meaning = meaning_of(xid.number)
    return f"{slot}: {xid.line}", f"that is: {meaning.means}; {meaning.do}"
