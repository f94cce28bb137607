"""The budget's picture of the kernel's allocator against a kernel that allocates: every window and every BAR, address for address.

Firmware (qboot) places nothing in these machines; what is compared is Linux alone. A layout is what hangs from one root port, in
two forms: as QEMU is told to wire it, and as what it asks for. The registers of QEMU's devices are written here by hand (QEMU 7.2
hw/display/bochs-display.c, hw/misc/pci-testdev.c, hw/misc/edu.c, hw/pci-bridge/gen_pcie_root_port.c); a wrong one fails.
"""

from __future__ import annotations

import pytest

from harness.errors import BenchError
from harness.lab.qemu.bare import FIRMWARE, Wired, boot_bare
from harness.lab.qemu.image import find_image
from harness.procedures.budget.demand import KIB, MIB, Ask, Device, Openings, Region, Space
from harness.procedures.budget.kernel import WINDOWS, assign

pytestmark = pytest.mark.qemu

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


GPU = (display(16), memory(256, "00.1"))
"""16 MiB of 32-bit space and 256 MiB of wide space behind one port, as an RTX 8000 asks for."""

MACHINES = {
    "roomy": (
        {"memory_mib": 256, "wide_gib": 64},
        {
            "one part without a switch": root(1, display(64, rom=True)),
            "three GPUs behind a switch": root(2, flat(GPU, GPU, GPU)),
            "two switches, one behind the other": root(3, switch(port("00.0", flat(GPU, (registers(),), GPU)))),
            "sizes that leave gaps": root(4, flat((memory(1024),), (memory(64),), (memory(256),), (memory(4096),))),
            "functions of one device": root(5, flat((display(32, "00.0"), registers("00.1")), (registers(), registers("00.1")))),
            "ports with nothing behind them": root(6, flat((), (display(16),), ())),
            "nothing at all": root(7),
        },
    ),
    "short of wide space": (
        {"memory_mib": 2816, "wide_gib": 4},
        {
            "fits beside the others": root(1, flat((memory(1024),), (memory(512),))),
            "too large for what is left": root(2, flat((memory(2048),), (memory(2048),))),
            "small enough for a place below 4 GiB": root(3, flat((memory(256),), (memory(128),))),
        },
    ),
    "short of 32-bit space": (
        {"memory_mib": 2816, "wide_gib": 64},
        {
            "the first of three": root(1, flat((display(256),), (display(128),))),
            "the second of three": root(2, flat((display(256),), (display(256),))),
            "the last of three": root(3, flat((display(128),), (display(64), registers("00.1")))),
        },
    ),
    "short of I/O ports": (
        {"memory_mib": 256, "wide_gib": 64},
        {
            "nine windows": root(1, flat(*[(memory(1),)] * 9)),
            "four windows": root(2, flat(*[(memory(1),)] * 4)),
            "three windows": root(3, flat(*[(memory(1),)] * 3)),
        },
    ),
}


@pytest.fixture(scope="module", params=list(MACHINES))
def machine(request, needs_the_lab, tmp_path_factory):
    """The layouts of one machine, what was foretold of them, and what its kernel made of them."""
    options, trees = MACHINES[request.param]
    try:
        shown = boot_bare(find_image(), tmp_path_factory.mktemp("bare"), tuple(trees.values()), **options)
    except BenchError as error:
        if FIRMWARE in str(error):
            pytest.skip(f"QEMU comes without {FIRMWARE}: {error}")
        raise
    openings = openings_of(shown)
    return request.param, trees, assign(devices_of(tuple(trees.values())), openings), shown


def openings_of(shown):
    regions = [(window.kind, Region(window.start, window.end + 1 - window.start)) for window in shown.windows]
    memory = [region for kind, region in regions if kind == "mem" and region.start >= 1 << 20]
    return Openings(
        io=tuple(region for kind, region in regions if kind == "io" and region.end > 0x1000),
        low=tuple(region for region in memory if region.end <= 1 << 32),
        wide=tuple(region for region in memory if region.end > 1 << 32),
    )


def seen_at(shown, placement):
    """What the kernel gave to one ask; None where it has no place."""
    if placement.ask.name in WINDOWS.values():
        walk, index = placement.path, {Space.IO: 13, Space.LOW: 14, Space.WIDE: 15}[placement.ask.space]
    else:
        function, number = placement.ask.name.split()
        walk, index = placement.path[:-1] + function, int(number)
    lines = shown.functions[walk]
    start, end, flags = lines[index]
    return Region(start, end + 1 - start) if end > start and flags and not flags & 0x20000000 else None


def test_every_address_is_foretold(machine):
    _, _, foretold, shown = machine
    assert foretold
    wrong = [
        f"{each.path} {each.ask.name} ({each.ask.size:#x}): foretold {each.region}, the kernel gave {seen_at(shown, each)}"
        for each in foretold
        if seen_at(shown, each) != each.region
    ]
    assert not wrong, "\n".join(wrong)


def test_every_layout_takes_as_many_bus_numbers_as_it_has_bridges(machine):
    _, trees, _, shown = machine
    taken = {place: last - first + 1 for place, (first, last) in shown.buses.items()}
    for name, tree in trees.items():
        (device,) = devices_of((tree,))
        assert taken[tree.place] == device.bridges(), name


def test_what_fits_and_what_does_not_is_told_apart(machine):
    """Each machine that is short of something has a layout that loses and one that does not."""
    name, trees, foretold, _ = machine
    losing = {each.path.split("/")[0] for each in foretold if each.region is None}
    roots = {tree.place for tree in trees.values()}
    assert (not losing) if name == "roomy" else losing and losing < roots


def test_ten_layouts_are_compared():
    assert sum(len(trees) for _, trees in MACHINES.values()) >= 10
