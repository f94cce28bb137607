"""Faults of the qemu grade. Each is real: firmware and kernel meet it and say of it what they say.

QEMU's switch ports do not report whether a link is active (LLActRep-) and always say x1, so an empty slot is caught at the link, as
one that was never seen to be up.

BOOT acts only on starts that carry no BIOS job, as the model's faults of that stage do: the settings are brought up on a healthy
machine, and the next start is the one that fails.
"""

from __future__ import annotations

from harness.errors import Blame
from harness.lab.fault import Fault
from harness.lab.qemu import pcie_faults

WINDOW = "qemu.window-too-small"
ABSENT = "qemu.endpoint-absent"
KERNEL = "qemu.bad-kernel"
PANIC = "qemu.panic"
HALT = "qemu.halt-in-firmware"
CONSOLE_DEAD = "qemu.console-dead"
WRONG_PORT = "qemu.console-wrong-port"
SSH_DEAD = "qemu.ssh-dead"

BOOT = frozenset({KERNEL, PANIC, HALT, SSH_DEAD})

_SOURCE = "seen with OVMF 2022.11 and Linux 6.1 under QEMU 7.2"

FAULTS: tuple[Fault, ...] = (
    Fault(
        WINDOW,
        "The processor has 38 address bits whatever the BIOS says: the 64-bit window holds two of the twenty BARs.",
        "pcie.bars",
        _SOURCE,
    ),
    Fault(ABSENT, "The endpoint of slot08 is not plugged in.", "pcie.chain-link", _SOURCE),
    Fault(
        KERNEL,
        "The kernel's compressed part is damaged: it is started, says nothing, and the firmware's shell is back.",
        "boot.host-reach",
        _SOURCE,
    ),
    Fault(PANIC, "The kernel finds nothing to start as process 1 and panics.", "boot.host-reach", _SOURCE),
    Fault(HALT, "The firmware finds nothing to boot and waits for a key in its shell.", "boot.post-halt", _SOURCE),
    Fault(
        CONSOLE_DEAD,
        "The console's line is cut: the machine is fine, not a byte comes of it and nothing that is typed arrives.",
        "boot.console",
        _SOURCE,
        Blame.BENCH,
    ),
    Fault(
        WRONG_PORT,
        "The bench's console is the machine's second serial port, on which something writes numbers and no boot is shown.",
        "boot.console",
        "SOL and the rear connector of a 14G machine are different devices (ExtSerialConnector)",
        Blame.BENCH,
    ),
    Fault(
        SSH_DEAD,
        "The network card sits on another bus, so that its name is another and nothing configures it (needs a host over ssh).",
        "boot.host-reach",
        "predictable interface names change with PCI bus numbers",
        Blame.BENCH,
    ),
    *pcie_faults.FAULTS,
)
