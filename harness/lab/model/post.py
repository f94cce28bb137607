"""How the modelled machine starts: the stages of POST, how long each takes and what the console shows.

    power ─▶ processor ─▶ memory ─▶ processors ─▶ buses ─▶ PCI resources ─▶ inventory ─▶ OS boot ─▶ OS running
                                                     (long with 20 GPUs)       └ a BIOS job runs here, then all again

No public capture times the POST of an R640 with twenty GPUs, so the durations are assumptions, chosen to add up to the nine
to twelve minutes that lab engineers tell of; nothing judges a machine by them. The texts are our own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One stage of a start.

    ``progress`` is BootProgress.LastState and ``server`` the ServerStatus while it lasts; ``seconds`` is its length without
    GPUs and ``per_gpu`` what each adds.
    """

    progress: str
    server: str
    seconds: float
    per_gpu: float = 0.0
    text: tuple[str, ...] = ()

    def length(self, gpus: int) -> float:
        """Seconds with so many GPUs attached."""
        return self.seconds + self.per_gpu * gpus


MEMORY = "MemoryInitializationStarted"
RESOURCES = "PCIResourceConfigStarted"
INVENTORY = "SystemHardwareInitializationComplete"

STAGES: tuple[Stage, ...] = (
    # assumption: power sequencing and first microcode
    Stage("PrimaryProcessorInitializationStarted", "InPOST", 15.0, text=("", "Model BIOS", "Configuring processors")),
    # assumption: 384 GB trained with MemTest off
    Stage(MEMORY, "InPOST", 85.0, text=("Configuring memory", "384 GB ready")),
    # assumption
    Stage("SecondaryProcessorInitializationStarted", "InPOST", 10.0, text=("2 sockets, 40 cores",)),
    # assumption: link training of two HBAs and two chassis
    Stage("BusInitializationStarted", "InPOST", 20.0, text=("Training PCIe links",)),
    # assumption: 17 s for each GPU's option ROM and windows; the stage that grows with the number of GPUs
    Stage(RESOURCES, "InPOST", 25.0, per_gpu=17.0, text=("Assigning PCIe resources",)),
    # assumption: CSIOR (collect system inventory on restart) on a machine with many parts
    Stage(INVENTORY, "CollectingSystemInventory", 55.0, text=("Collecting system inventory", "Lifecycle Controller: done")),
)

RESET_GAP = 3.0
"""Assumption: seconds from a reset to the first stage."""

POWER_OFF_GAP = 10.0
"""Assumption: seconds without power in a power cycle."""

SHUTDOWN = 25.0
"""Assumption: seconds that the operating system takes to shut down."""

APPLY = 110.0
"""Seconds a BIOS job works before its reset; a recorded one ran 4 min 20 s reset included (NVIDIA/libredfish, dell_multi_dpu)."""

VERIFY = 40.0
"""Assumption: seconds from the job's own reset until it says Completed."""

LOOP = 60.0
"""Assumption: seconds in resource configuration before a machine that has run out of I/O space resets itself."""

LOADER = 20.0
"""Assumption: seconds from the boot loader to the kernel's first line."""

KERNEL = 55.0
"""Assumption: seconds from the kernel's first line to the login prompt and ssh."""

KERNEL_RELEASE = "6.1.0-model-amd64"
"""Called after Debian's 6.1 kernel, whose forms of resource messages the modelled log follows (linux-source-6.1, 6.1.192)."""

COMMAND_LINE = f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL_RELEASE} root=/dev/sda2 ro console=tty0 console=ttyS0,115200n8 iommu=off"

HOST_NAME = "model-lqd8360"

LOADER_TEXT = ("", "Booting from disk", "Loading Linux")
KERNEL_TEXT = (
    f"[    0.000000] Linux version {KERNEL_RELEASE} (model@lab)",
    f"[    0.000000] Command line: {COMMAND_LINE}",
    "[    1.204117] PCI: assigning resources",
    "[    9.833020] systemd[1]: Reached target Basic System.",
    "[   31.407755] systemd[1]: Started OpenSSH server.",
)
LOGIN_TEXT = f"\r\n{HOST_NAME} login: "
HALT_TEXT = ("", "A problem was found. Press F1 to go on, F2 for setup.")
LOOP_TEXT = ("Legacy I/O space is used up. Restarting.",)
