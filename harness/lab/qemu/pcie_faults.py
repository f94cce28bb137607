"""PCIe faults of the qemu grade: what is wired, typed or pulled differently, and when.

    power-on ── options of QEMU, options of the kernel, what is not plugged in ── firmware, kernel: they meet it
                                                                                    │
    "Run ... as init process" on the console ── deeds at QEMU's monitor ── hot-plug and errors: the kernel meets them too
                                                                                    │
    login: ── boot stage ── pcie stage ── the harness sees what is left

A deed is done once in each start, at the moment when the operating system's first process begins: ports and their drivers are up by
then, and whatever follows is over before the tree is read (a pressed button takes the kernel five seconds).

What is not the hardware's own is said with the fault: an option of the kernel stands for something that OVMF and QEMU cannot do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from harness.lab.fault import Fault

SHALLOW = "qemu.window-32bit-too-small"
BUSES = "qemu.bus-numbers"
PULLED = "qemu.pulled-while-running"
ADDED = "qemu.added-while-running"
ERRORS = "qemu.corrected-errors"
IO = "qemu.benign-io-exhausted"

SLOT = 8
"""The number of the slot whose part comes, goes or errs."""

_OTHER_ROOT = 0x10
"""The number of the other host bridge: the first one keeps the sixteen below it, and its tree wants twenty-three."""

_KEPT_AWAY = ((0x40000000, 0x70000000), (0xC1000000, 0x3DC00000))
"""Start and length of what is kept away from the host bridge below 4 GiB; 16 MiB are left, and the switch wants 29."""

_IO_PARTS = 16
"""Each takes a 4 KiB window of 64 KiB, of which the switch has taken some already."""

_NATIVE_HOTPLUG = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
"""Hot-plug by the ports' own registers (pciehp), as on a server; else QEMU's ACPI tables keep it for themselves."""

_BEGINS = re.compile(rb"Run \S+ as init process")

_SOURCE = "seen with OVMF 2022.11 and Linux 6.1 under QEMU 7.2"


@dataclass(frozen=True)
class Deed:
    """One command to QEMU's monitor."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Rig:
    """How a machine with a fault differs: options of QEMU and of the kernel, slots left empty, deeds while it runs."""

    options: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    empty: frozenset[int] = frozenset()
    deeds: tuple[Deed, ...] = ()


def rig(switched_on: frozenset[str]) -> Rig:
    """Everything that the faults among ``switched_on`` change."""
    rigs = [_RIGS[fault] for fault in sorted(switched_on) if fault in _RIGS]
    return Rig(
        tuple(option for one in rigs for option in one.options),
        tuple(option for one in rigs for option in one.kernel),
        frozenset(slot for one in rigs for slot in one.empty),
        tuple(deed for one in rigs for deed in one.deeds),
    )


def is_time(said: bytes) -> bool:
    """Whether the console has shown that the first process begins."""
    return _BEGINS.search(said) is not None


def _io_parts() -> tuple[str, ...]:
    """Root ports in two places of the host bridge's bus, each with a card of 256 I/O ports behind it."""
    options: list[str] = []
    for number in range(_IO_PARTS):
        place, function = 5 + number // 8, number % 8
        port = f"pcie-root-port,id=io{number:02d},bus=pcie.0,addr={place}.{function},chassis=4,slot={40 + number}"
        options += ["-device", port + (",multifunction=on" if function == 0 else "")]
        options += ["-device", f"pci-testdev,bus=io{number:02d}"]
    return tuple(options)


def _error(name: str) -> Deed:
    return Deed("human-monitor-command", {"command-line": f"pcie_aer_inject_error -c port{SLOT:02d} {name}"})


_RIGS: Mapping[str, Rig] = MappingProxyType(
    {
        SHALLOW: Rig(kernel=("reserve=" + ",".join(f"{start:#x},{length:#x}" for start, length in _KEPT_AWAY),)),
        BUSES: Rig(
            options=("-device", f"pxb-pcie,id=other,bus=pcie.0,addr=4.0,bus_nr={_OTHER_ROOT}"), kernel=("pci=assign-busses",)
        ),
        PULLED: Rig(options=_NATIVE_HOTPLUG, deeds=(Deed("device_del", {"id": f"part{SLOT:02d}"}),)),
        ADDED: Rig(
            options=_NATIVE_HOTPLUG,
            empty=frozenset({SLOT}),
            deeds=(
                Deed(
                    "device_add",
                    {
                        "driver": "nvme",
                        "id": f"part{SLOT:02d}",
                        "bus": f"port{SLOT:02d}",
                        "serial": f"VIRT{SLOT:04d}",
                        "pmrdev": f"memory{SLOT:02d}",
                    },
                ),
            ),
        ),
        ERRORS: Rig(kernel=("pci=noaer",), deeds=(_error("RCVR"), _error("BAD_TLP"))),
        IO: Rig(options=_io_parts()),
    }
)

FAULTS: tuple[Fault, ...] = (
    Fault(
        SHALLOW,
        "All but 16 MiB of the space below 4 GiB is kept for something else (the kernel's reserve=): the switch's window has none.",
        "pcie.bars",
        _SOURCE,
    ),
    Fault(
        BUSES,
        "A second host bridge begins at bus 10, so that this one has sixteen bus numbers for a tree that wants twenty-three "
        "(the kernel gives them out itself, pci=assign-busses).",
        "pcie.buses",
        _SOURCE,
    ),
    Fault(
        PULLED,
        f"As the operating system starts its first process, somebody presses the button of slot{SLOT:02d} and pulls the part.",
        "pcie.chain-link",
        _SOURCE,
    ),
    Fault(
        ADDED,
        f"As the operating system starts its first process, slot{SLOT:02d} gets its part: the windows were sized without it, "
        "and the kernel takes the neighbours' back to make room.",
        "pcie.bars",
        _SOURCE,
    ),
    Fault(
        ERRORS,
        f"The port of slot{SLOT:02d} receives a bad symbol and a bad packet while the kernel leaves errors alone (pci=noaer): "
        "its status register holds them, the kernel's counters stay at zero.",
        "pcie.errors",
        _SOURCE,
    ),
    Fault(IO, f"{_IO_PARTS} more cards ask for I/O ports than there are; the slots' parts need none.", None, _SOURCE),
)
