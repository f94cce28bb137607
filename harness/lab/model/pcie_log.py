"""What the kernel of the modelled machine prints while it builds the PCIe tree: (seconds since its start, text without stamp).

    ACPI root bridge, windows ─ functions and their BARs ─ what has no place ─ ports ─ hot-plug and error lines

Shapes of the lines: R640 BIOS 1.5.6 (linuxhw dmesg collection), Linux 6.1 drivers/pci (resource names instead of ``BAR n:``),
NVIDIA open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c. The lines come from the same result as sysfs, so the two agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.lab.model.parts import GPUS
from harness.lab.model.pcie_enumeration import Enumerated, Placed, Shortage
from harness.lab.model.pcie_parts import Bar
from harness.lab.model.pcie_setup import VICTIMS
from harness.lab.model.tree import GPU_BARS, Stack

STARTS_AT = 1.4
"""Seconds into the boot when a recorded R640 begins to list its root bridges."""

_STEP = 0.00013
_BRIDGE_NAMES = ("PNP0A08:00", "PNP0A08:01", "PNP0A08:02", "PNP0A08:03", "PNP0A08:06", "PNP0A08:07", "PNP0A08:08", "PNP0A08:09")


def pcie_lines(stacks: Sequence[Enumerated], faults: frozenset[str]) -> tuple[tuple[float, str], ...]:
    """The lines of the enumeration, in the order the kernel prints them."""
    lines = ["PCI: MMCONFIG for domain 0000 [bus 00-ff] at [mem 0x80000000-0x8fffffff] (base 0x80000000)"]
    for stack, name in zip(stacks, _BRIDGE_NAMES, strict=True):
        lines += _root_bridge(stack.stack, name)
        for function in stack.functions:
            lines += _found(function)
        lines += _busless(stack)
        lines.append(f"pci_bus 0000:{stack.stack.first_bus:02x}: on NUMA node {stack.stack.node}")
    for stack in stacks:
        lines += _healthy_noise(stack, faults)
        for shortage in stack.shortages:
            lines += _shortage(shortage)
    for stack in stacks:
        for function in stack.walk():
            lines += _port(function)
    timed = [(STARTS_AT + _STEP * number, line) for number, line in enumerate(lines)]
    return (*timed, *_later(stacks, faults))


def invalid_bars(gpus: Sequence[Placed]) -> tuple[str, ...]:
    """What the NVIDIA driver prints about GPUs with a BAR that has no place."""
    lines = []
    for gpu in gpus:
        missing = next((bar.index for bar in gpu.hardware.bars if bar.index not in gpu.regions), None)
        if missing is not None:
            lines += [
                "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
                f"NVRM: BAR{missing} is 0M @ 0x0 (PCI:{gpu.address})",
                f"nvidia: probe of {gpu.address} failed with error -1",
            ]
    if lines:
        lines.append(f"NVRM: The NVIDIA probe routine failed for {len(lines) // 3} device(s).")
    return tuple(lines)


def _root_bridge(stack: Stack, name: str) -> Iterator[str]:
    bus = f"0000:{stack.first_bus:02x}"
    yield f"ACPI: PCI Root Bridge [{stack.name}] (domain 0000 [bus {stack.first_bus:02x}-{stack.last_bus:02x}])"
    yield f"acpi {name}: _OSC: OS supports [ExtendedConfig ASPM ClockPM Segments MSI HPX-Type3]"
    yield f"acpi {name}: _OSC: platform does not support [SHPCHotplug AER LTR DPC]"
    yield f"acpi {name}: _OSC: OS now controls [PCIeHotplug PME PCIeCapability]"
    yield f"acpi {name}: FADT indicates ASPM is unsupported, using BIOS configuration"
    yield f"PCI host bridge to bus {bus}"
    if stack.io.size:
        yield f"pci_bus {bus}: root bus resource [io  {stack.io.start:#06x}-{stack.io.last:#06x} window]"
    yield f"pci_bus {bus}: root bus resource [mem {stack.low} window]"
    if stack.wide is not None:
        yield f"pci_bus {bus}: root bus resource [mem {stack.wide} window]"
    yield f"pci_bus {bus}: root bus resource [bus {stack.first_bus:02x}-{stack.last_bus:02x}]"


def _found(function: Placed) -> Iterator[str]:
    identity = function.hardware.identity
    header = "type 01" if function.hardware.is_bridge else "type 00"
    yield f"pci {function.address}: [{identity.vendor:04x}:{identity.device:04x}] {header} class {identity.class_code:#08x}"
    for bar in function.hardware.bars:
        if (region := function.regions.get(bar.index)) is not None:
            yield f"pci {function.address}: BAR {bar.index} [mem {region}{_flags(bar)}]"
    for child in function.children:
        yield from _found(child)
    if function.hardware.is_bridge and function.secondary:
        yield f"pci {function.address}: PCI bridge to [bus {_buses(function.secondary, function.subordinate)}]"
        if (low := function.windows.get("low")) is not None:
            yield f"pci {function.address}:   bridge window [mem {low}]"
        if (wide := function.windows.get("wide")) is not None:
            yield f"pci {function.address}:   bridge window [mem {wide} 64bit pref]"


def _busless(stack: Enumerated) -> Iterator[str]:
    for bridge, number in stack.busless:
        yield (f"pci {bridge.address}: devices behind bridge are unusable because [bus {number:02x}] cannot be assigned for them")


def _shortage(shortage: Shortage) -> Iterator[str]:
    subject = f"pci {shortage.function.address}: {shortage.resource} [mem size {shortage.size:#010x}{shortage.flags}]"
    yield f"{subject}: can't assign; no space"
    yield f"{subject}: failed to assign"


def _port(function: Placed) -> Iterator[str]:
    hardware = function.hardware
    if hardware.hotplug:
        yield (
            f"pcieport {function.address}: pciehp: Slot #{hardware.slot} AttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug+ "
            "Surprise+ Interlock- NoCompl- IbPresDis- LLActRep+"
        )


def _healthy_noise(stack: Enumerated, faults: frozenset[str]) -> Iterator[str]:
    """Lines that look like trouble on machines without any: seen on an ASUS box with eight healthy GPUs, and on an R640."""
    if "benign.no-space-io" in faults:
        for function in stack.walk():
            yield from _harmless_shortages(function)
    if "benign.later-assigned" in faults:
        ports = [function for function in stack.walk() if function.hardware.hotplug and function.children]
        for port in ports[:2]:
            yield from _assigned_later(port)


def _harmless_shortages(function: Placed) -> Iterator[str]:
    """I/O windows of hot-plug ports, the memory window of an empty one, ROMs, and the BARs of virtual functions."""
    lacking = []
    if function.hardware.hotplug:
        lacking.append("bridge window [io  size 0x1000]")
        if not function.children:
            lacking.append("bridge window [mem size 0x00200000]")
    if function.hardware.driver == "nvidia":
        yield f"pci {function.address}: ROM [mem 0xfff80000-0xffffffff pref]: can't claim; no compatible bridge window"
        lacking.append("ROM [mem size 0x00080000 pref]")
    if function.hardware.driver == "bnxt_en":
        lacking.append("VF BAR 0 [mem size 0x00040000 64bit pref]")
    for resource in lacking:
        yield f"pci {function.address}: {resource}: can't assign; no space"
        yield f"pci {function.address}: {resource}: failed to assign"


def _assigned_later(port: Placed) -> Iterator[str]:
    """A first pass that fails and a second one that works, as with pci=realloc."""
    gpu = port.children[0]
    lost = [Shortage(gpu, f"BAR {bar.index}", bar.size, _flags(bar)) for bar in GPU_BARS]
    yield from _shortage(Shortage(port, "bridge window", port.windows["low"].size, ""))
    for shortage in lost:
        yield from _shortage(shortage)
    yield f"pci {port.address}: bridge window [mem {port.windows['low']}]: assigned"
    for bar in GPU_BARS:
        yield f"pci {gpu.address}: BAR {bar.index} [mem {gpu.regions[bar.index]}{_flags(bar)}]: assigned"


def _later(stacks: Sequence[Enumerated], faults: frozenset[str]) -> Iterator[tuple[float, str]]:
    """What happens after the tree stands: a cable that lost contact for a moment, a chassis that came up too late."""
    for function in (function for stack in stacks for function in stack.walk()):
        if "pcie.kernel-log" in faults and function.path in _ports_of("pcie.kernel-log"):
            number = function.hardware.slot
            yield 6.1, f"pcieport {function.address}: pciehp: Slot({number}): Link Down"
            yield 6.1002, f"pcieport {function.address}: pciehp: Slot({number}): Card not present"
            yield 7.4, f"pcieport {function.address}: pciehp: Slot({number}): Card present"
            yield 7.4001, f"pcieport {function.address}: pciehp: Slot({number}): Link Up"


def _ports_of(fault: str) -> frozenset[str]:
    """The paths of the ports above the slots that a fault hits."""
    return frozenset(gpu.path.rsplit("/", 1)[0] for gpu in GPUS if gpu.slot in VICTIMS[fault])


def _flags(bar: Bar) -> str:
    return f"{' 64bit' if bar.wide else ''}{' pref' if bar.prefetchable else ''}"


def _buses(first: int, last: int) -> str:
    return f"{first:02x}" if first == last else f"{first:02x}-{last:02x}"
