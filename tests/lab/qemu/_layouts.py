"""Layouts of PCIe trees in two forms: as QEMU is told to wire them, and as what they ask for.

What the registers of QEMU's devices are, is written here by hand: QEMU 7.2 hw/display/bochs-display.c, hw/misc/pci-testdev.c,
hw/misc/edu.c, hw/pci-bridge/gen_pcie_root_port.c. A wrong one fails the comparison of sizes.
"""

from __future__ import annotations

from harness.lab.qemu.bare import Wired
from harness.procedures.budget.demand import KIB, MIB, Ask, Device, Space

ROOT_PORT, UPSTREAM, DOWNSTREAM = "pcie-root-port", "x3130-upstream", "xio3130-downstream"


def display(mib: int, place: str = "00.0", *, rom: bool = False) -> Wired:
    """A frame buffer in 32-bit space, 4 KiB of registers, and 32 KiB of ROM if wanted."""
    return Wired("bochs-display", place, f"vgamem={mib}M" + ("" if rom else ",romfile="))


def memory(mib: int, place: str = "00.0") -> Wired:
    """A 64-bit prefetchable BAR, 4 KiB of registers in 32-bit space and 256 I/O ports."""
    return Wired("pci-testdev", place, f"membar={mib}M")


def registers(place: str = "00.0") -> Wired:
    """One MiB of 32-bit space."""
    return Wired("edu", place)


def port(place: str, *below: Wired) -> Wired:
    return Wired(DOWNSTREAM, place, children=below)


def switch(*ports: Wired) -> Wired:
    return Wired(UPSTREAM, children=ports)


def flat(*parts: tuple[Wired, ...]) -> Wired:
    """A switch with a port for each of ``parts``."""
    return switch(*(port(f"{number:02x}.0", *each) for number, each in enumerate(parts)))


def root(number: int, *below: Wired) -> Wired:
    return Wired(ROOT_PORT, f"{number:02x}.0", children=below)


def asks_of(wired: Wired) -> tuple[Ask, ...]:
    """The registers of one function, by function and BAR."""
    function = wired.place[-1]

    def ask(index: int, size: int, space: Space) -> Ask:
        return Ask(f"{function} {index}", size, space)

    match wired.model:
        case "pcie-root-port":
            return (ask(0, 4 * KIB, Space.LOW),)
        case "bochs-display":
            size = int(wired.options.split("vgamem=")[1].split("M")[0]) * MIB
            rom = () if "romfile=" in wired.options else (ask(6, 32 * KIB, Space.LOW),)
            return (ask(0, size, Space.LOW), ask(2, 4 * KIB, Space.LOW), *rom)
        case "pci-testdev":
            size = int(wired.options.split("membar=")[1].split("M")[0]) * MIB
            return (ask(0, 4 * KIB, Space.LOW), ask(1, 256, Space.IO), ask(2, size, Space.WIDE))
        case "edu":
            return (ask(0, MIB, Space.LOW),)
        case _:
            return ()


def devices_of(tree: tuple[Wired, ...]) -> tuple[Device, ...]:
    """What the devices on one bus ask for; functions of one device are one."""
    by_place: dict[str, list[Wired]] = {}
    for wired in tree:
        by_place.setdefault(wired.place[:2], []).append(wired)
    return tuple(
        Device(
            functions[0].place,
            tuple(ask for function in functions for ask in asks_of(function)),
            functions[0].model in (ROOT_PORT, UPSTREAM, DOWNSTREAM),
            devices_of(functions[0].children),
        )
        for functions in by_place.values()
    )
