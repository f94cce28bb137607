"""Faults of the qemu grade. Each is real: firmware and kernel meet it and say of it what they say.

QEMU's switch ports do not report whether a link is active (LLActRep-) and always say x1, so an empty slot is caught at the link, as
one that was never seen to be up.
"""

from __future__ import annotations

from harness.lab.fault import Fault

WINDOW = "qemu.window-too-small"
ABSENT = "qemu.endpoint-absent"
KERNEL = "qemu.bad-kernel"
PANIC = "qemu.panic"
HALT = "qemu.halt-in-firmware"

_SOURCE = "seen with OVMF 2022.11 and Linux 6.1 under QEMU 7.2"

FAULTS: tuple[Fault, ...] = (
    Fault(
        WINDOW,
        "The processor has 38 address bits whatever the BIOS says: the 64-bit window holds two of the twenty BARs.",
        "pcie.bars",
        _SOURCE,
    ),
    Fault(ABSENT, "The endpoint of slot08 is not plugged in.", "pcie.chain-link", _SOURCE),
    Fault(KERNEL, "The kernel's compressed part is damaged: it is started and not a word comes of it.", "boot.host-reach", _SOURCE),
    Fault(PANIC, "The kernel finds nothing to start as process 1 and panics.", "boot.host-reach", _SOURCE),
    Fault(HALT, "The firmware finds nothing to boot and waits for a key in its shell.", "boot.post-halt", _SOURCE),
)
