"""Which of the GPUs the modelled machine's iDRAC lists: none, as no public capture shows any behind an external chassis.

(no fault)               nothing
benign.bmc-lists-gpus    every GPU as a PCIe device without a serial number
pcie.four-view.bmc       every GPU with its serial number, and one of them is missing
"""

from __future__ import annotations

from harness.lab.idrac.controller import ListedGpu
from harness.lab.model.parts import View
from harness.lab.model.pcie_host import gpu_addresses

UNLISTED = "jbogA/slot08"
"""The slot whose GPU is missing from the BMC's list under the fault ``pcie.four-view.bmc``."""


def listed(view: View) -> tuple[ListedGpu, ...]:
    """The GPUs in the BMC's inventory, in the order of their buses."""
    if not view.faults & {"benign.bmc-lists-gpus", "pcie.four-view.bmc"}:
        return ()
    serials = {gpu.slot: gpu.serial if "pcie.four-view.bmc" in view.faults else "" for gpu in view.gpus}
    missing = UNLISTED if "pcie.four-view.bmc" in view.faults else ""
    return tuple(
        ListedGpu(int(address[5:7], 16), int(address[8:10], 16), serials[slot])
        for slot, address in gpu_addresses(view).items()
        if slot != missing
    )
