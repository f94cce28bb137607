"""The fault catalogue: every fault of the virtual lab by its id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from harness.errors import UsageMistake
from harness.lab.fault import Fault
from harness.lab.faults import gpu, idrac, machine, pcie
from harness.lab.model.victims import unpopulated, victims
from harness.lab.qemu import faults as qemu

__all__ = ["catalogue", "find", "unpopulated", "victims"]


def catalogue() -> tuple[Fault, ...]:
    """All faults: machine, PCIe, GPU."""
    return (*machine.FAULTS, *pcie.FAULTS, *gpu.FAULTS)


def qemu_catalogue() -> tuple[Fault, ...]:
    """The faults of the qemu grade."""
    return qemu.FAULTS


def idrac_catalogue() -> tuple[Fault, ...]:
    """The faults of the simulated iDRAC by itself: field failures, in their order."""
    return idrac.FAULTS


def find(ids: Iterable[str], faults: Sequence[Fault] | None = None) -> frozenset[str]:
    """The ids as a set for ``open_model``, or of other ``faults``. Raises UsageMistake for an unknown one, naming the nearest."""
    wanted = frozenset(ids)
    known = [fault.id for fault in ((*catalogue(), *idrac.FAULTS) if faults is None else faults)]
    for fault_id in sorted(wanted):
        if fault_id not in known:
            near = get_close_matches(fault_id, known, n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageMistake(f"no fault {fault_id!r} in the catalogue of the virtual lab{hint}")
    return wanted
