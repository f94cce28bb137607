"""The PCIe tree of the modelled R640 as it is cabled, and what each fault changes in it.

    PC00 00-16  host bridge, chipset port ─ Matrox VGA of the BMC
    PC01 17-39  root port ─ PERC;  root port ─ network card
    PC02 3a-5c  root port ─ HBA switch ══ cable ══ jbogA switch ─ ten ports ─ ten GPUs        (PCIe slot 1)
    PC03 5d-7f  PC06 80-84  nothing
    PC07 85-ad  root port ─ NVMe switch ─ two drives: not on any path between GPUs
    PC08 ae-d6  nothing
    PC09 d7-ff  root port ─ HBA switch ══ cable ══ jbogB switch ─ ten ports ─ ten GPUs        (PCIe slot 3)

Windows, bus ranges and the place of the slots: R640 BIOS 1.5.6, linuxhw dmesg collection. The aperture of the passive RTX 8000
is not published; the 256 MiB of the active card are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.lab.model.parts import CHASSIS, GPUS, Chassis, ModelGpu, serial_in
from harness.lab.model.pcie_onboard import PLX_SWITCH, REDIRECTING, ROOT_PORT, SWITCH_BAR, onboard, root_port
from harness.lab.model.pcie_parts import DOWN, EMPTY, Bar, Hardware, Identity, Kind, Link
from harness.lab.model.pcie_setup import Setup
from harness.lab.model.pcie_windows import GIB, MIB, Region

CHASSIS_SWITCH = Identity(0x10B5, 0x9797, 0x10B5, 0x9797, 0x060400, 0xAA)
RTX_8000 = Identity(0x10DE, 0x1E78, 0x10DE, 0x13D8, 0x030200, 0xA1)
RTX_6000 = replace(RTX_8000, subsystem=0x13D9)

GPU_BARS = (Bar(0, 16 * MIB), Bar(1, 256 * MIB, wide=True, prefetchable=True), Bar(3, 32 * MIB, wide=True, prefetchable=True))

IDLE = Link(generation=1)
"""A GPU that idles lets its link fall to 2.5 GT/s: healthy."""

DATA_LINK_ERROR = 1 << 4


@dataclass(frozen=True)
class Stack:
    """One host bridge: its ACPI name, bus range, I/O, 32-bit and 64-bit windows, socket, and the functions on its root bus.

    ``bus_gap`` bus numbers are left out below its first port.
    """

    name: str
    first_bus: int
    last_bus: int
    io: Region
    low: Region
    wide: Region | None
    node: int
    functions: tuple[Hardware, ...] = ()
    bus_gap: int = 0

    @property
    def path(self) -> str:
        """The host bridge as sysfs names it."""
        return f"pci0000:{self.first_bus:02x}"


def stacks(setup: Setup) -> tuple[Stack, ...]:
    """All host bridges of the machine, as firmware finds them at the start of a boot."""
    return tuple(_shrunk(replace(stack, functions=_functions(stack, setup)), setup) for stack in _RECORDED)


_RECORDED = (
    Stack("PC00", 0x00, 0x16, Region(0x1000, 0x3000), Region(0x90000000, 216 * MIB), Region(0x380000000000, 64 * GIB), 0),
    Stack("PC01", 0x17, 0x39, Region(0x4000, 0x2000), Region(0x9D800000, 216 * MIB), Region(0x381000000000, 64 * GIB), 0),
    Stack("PC02", 0x3A, 0x5C, Region(0x6000, 0x2000), Region(0xAB000000, 216 * MIB), Region(0x382000000000, 64 * GIB), 0),
    Stack("PC03", 0x5D, 0x7F, Region(0x8000, 0x2000), Region(0xB8800000, 216 * MIB), Region(0x383000000000, 64 * GIB), 0),
    Stack("PC06", 0x80, 0x84, Region(0x0000, 0x0000), Region(0xC6000000, 216 * MIB), Region(0x384000000000, 64 * GIB), 1),
    Stack("PC07", 0x85, 0xAD, Region(0xA000, 0x2000), Region(0xD3800000, 216 * MIB), Region(0x385000000000, 64 * GIB), 1),
    Stack("PC08", 0xAE, 0xD6, Region(0xC000, 0x2000), Region(0xE1000000, 216 * MIB), Region(0x386000000000, 64 * GIB), 1),
    Stack("PC09", 0xD7, 0xFF, Region(0xE000, 0x2000), Region(0xEE800000, 216 * MIB), Region(0x387000000000, 64 * GIB), 1),
)


def _shrunk(stack: Stack, setup: Setup) -> Stack:
    """The stack with what the faults and the BIOS settings take from its windows and bus range."""
    if not setup.above_4g:
        stack = replace(stack, wide=None)
    if stack.first_bus == CHASSIS[1].root_bus:
        if "pcie.buses" in setup.faults:
            stack = replace(stack, last_bus=0xE2)
        if "pcie.bars" in setup.faults:
            stack = replace(stack, low=Region(stack.low.start, 138 * MIB))
        if "pcie.aperture.window" in setup.faults and stack.wide is not None:
            stack = replace(stack, wide=Region(stack.wide.start, 4 * GIB))
    if "benign.bdfs-moved" in setup.faults:
        stack = replace(stack, bus_gap=3)
    return stack


def _functions(stack: Stack, setup: Setup) -> tuple[Hardware, ...]:
    chassis = next((chassis for chassis in CHASSIS if chassis.root_bus == stack.first_bus), None)
    if chassis is not None:
        return () if chassis.hba in setup.disabled else (_chassis_branch(chassis, setup),)
    return onboard(stack.name, setup)


def _chassis_branch(chassis: Chassis, setup: Setup) -> Hardware:
    """Root port, HBA switch, cable, chassis switch and its ten ports."""
    uplink = Link(
        width=8 if setup.hits("pcie.uplink-width", chassis.name) else 16,
        generation=1 if setup.hits("pcie.uplink-speed", chassis.name) else 3,
    )
    chassis_switch: tuple[Hardware, ...] = (
        Hardware(
            0x00,
            CHASSIS_SWITCH,
            Kind.UPSTREAM,
            bars=SWITCH_BAR,
            link=uplink,
            payload_most=1024,
            serial=_switch_serial(chassis, "aa"),
            driver="pcieport",
            children=tuple(_gpu_port(gpu, setup) for gpu in _ports(setup) if gpu.chassis == chassis),
        ),
    )
    if setup.hits("pcie.uplink", chassis.name):
        uplink, chassis_switch = replace(uplink, changed=True), ()
    if setup.hits("pcie.uplink.cable", chassis.name):
        uplink, chassis_switch = EMPTY, ()
    cable_port = Hardware(
        0x00,
        PLX_SWITCH,
        Kind.DOWNSTREAM,
        below=uplink,
        slot=0,
        acs=0,
        payload_most=1024,
        serial=_switch_serial(chassis, "bb"),
        driver="pcieport",
        children=chassis_switch,
    )
    hba = Hardware(
        0x00,
        PLX_SWITCH,
        Kind.UPSTREAM,
        bars=SWITCH_BAR,
        link=Link(),
        payload_most=1024,
        serial=_switch_serial(chassis, "bb"),
        driver="pcieport",
        children=(cable_port,),
    )
    return root_port(0x00, ROOT_PORT, hba, slot=int(chassis.hba.rsplit(" ", 1)[1]))


def _ports(setup: Setup) -> tuple[ModelGpu, ...]:
    """The ports of the chassis, each by the GPU that belongs there: all that a platform names, and those with a GPU besides."""
    return (*GPUS, *(gpu for gpu in setup.gpus if gpu not in GPUS))


def _switch_serial(chassis: Chassis, last: str) -> str:
    """All ports of a PLX switch have the same serial number; sixteen hex digits."""
    return f"000edf10b5{chassis.root_bus:04x}{last}"


def _gpu_port(gpu: ModelGpu, setup: Setup) -> Hardware:
    """A hot-plug capable downstream port of the chassis, with its GPU where there is one."""
    link = _gpu_link(gpu, setup)
    absent = gpu not in setup.gpus or setup.hits("pcie.chain-link", gpu.slot) or setup.hits("pcie.enumerated", gpu.slot)
    return Hardware(
        gpu.port,
        CHASSIS_SWITCH,
        Kind.DOWNSTREAM,
        below=link,
        slot=gpu.chassis.first_slot_number + gpu.port - 1,
        hotplug=True,
        acs=REDIRECTING if setup.hits("pcie.acs", gpu.chassis.name) else 0,
        payload=512 if setup.hits("pcie.mps", gpu.slot) else 256,
        payload_most=1024,
        serial=_switch_serial(gpu.chassis, "aa"),
        uncorrected=DATA_LINK_ERROR if setup.hits("pcie.errors", gpu.slot) else 0,
        driver="pcieport",
        children=() if absent else (_gpu(gpu, link, setup),),
    )


def _gpu_link(gpu: ModelGpu, setup: Setup) -> Link:
    if gpu not in setup.gpus:
        return EMPTY
    if setup.hits("pcie.chain-link", gpu.slot):
        return DOWN
    link = IDLE
    if "benign.idle-gen1" in setup.faults and gpu.port % 2:
        link = replace(link, generation=3)
    if setup.hits("pcie.width", gpu.slot):
        link = replace(link, width=8)
    if setup.hits("pcie.target-speed", gpu.slot):
        link = replace(link, target=1)
    return link


def _gpu(gpu: ModelGpu, link: Link, setup: Setup) -> Hardware:
    forgotten = setup.hits("pcie.aperture", gpu.slot)
    return Hardware(
        0x00,
        RTX_6000 if setup.hits("pcie.identity", gpu.slot) else RTX_8000,
        Kind.ENDPOINT,
        bars=tuple(replace(bar, forgotten=forgotten and bar.index == 1) for bar in GPU_BARS),
        link=link,
        serial=serial_in(gpu, setup.faults).rjust(16, "0"),
        answers=not setup.hits("pcie.enumerated.fallen", gpu.slot),
        driver="nvidia",
    )
