"""What the modelled machine's operating system says of its PCIe tree: the answer of ``agent pci``, and the kernel log.

    View ─ setup ─ tree.stacks ─ enumerate_stack ─┬─ sysfs.write_system ─ the real agent reads it ─ answer
                                                  └─ pcie_log ─ kernel_log

The agent that runs here is the one that runs on hardware; only its root folder is another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.agent.pci import read
from harness.errors import UsageMistake
from harness.lab.model.driver import bound_driver, kernel_lines
from harness.lab.model.parts import CHASSIS, NEIGHBOUR_TAG, SERVICE_TAG, View, boot_id
from harness.lab.model.pcie_enumeration import Enumerated, Placed, enumerate_stack
from harness.lab.model.pcie_log import invalid_bars, pcie_lines
from harness.lab.model.pcie_setup import Setup
from harness.lab.model.post import COMMAND_LINE, KERNEL_RELEASE
from harness.lab.model.sysfs import System, link_files, write_system
from harness.lab.model.tree import stacks

ERRORS_A_SECOND = 2.0
"""How often a link corrects an error under the fault ``pcie.error-rate``: fifteen times what Gen3 x16 may have."""

DURATION = 1.5
"""Seconds that the worker takes for the whole tree on hardware, mostly waking sleeping devices; an assumption."""

_TRANSLATING = "intel_iommu=on pci=disable_acs_redir=pci:10b5:9797;pci:10b5:9733;pci:8086:2030"
_IDENTITY = f"{_TRANSLATING} iommu=pt"
_NVIDIA = 0x10DE
_IN_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it; 1,700 small files take an eighth of the time there


def answer(view: View, arguments: Sequence[str]) -> Iterable[tuple[float, str]]:
    """The lines of ``agent pci`` with the seconds from its start to each. Raises UsageMistake for arguments."""
    if arguments:
        raise UsageMistake(f"the modelled machine's pci worker takes no arguments, not {' '.join(arguments)}")
    lines = _agent_lines(_setup(view), view.boot)
    return [(round(DURATION * (number + 1) / len(lines), 6), line) for number, line in enumerate(lines)]


def watched(view: View, count: int, every: float) -> Iterable[tuple[float, str]]:
    """What the sampling of links prints: for each look the time, then every link and every counter of corrected errors."""
    setup = _setup(view)
    linked = [function for stack in _enumerated(setup) for function in stack.walk() if link_files(function.hardware)]
    flapping, failing = _ends(setup, "pcie.steady"), _ends(setup, "pcie.error-rate")[:1]
    old = 150 if "benign.old-corrected" in setup.faults else 0
    for number in range(count):
        at = number * every
        yield at, f"at {view.now + at:.2f}"
        for function in linked:
            files = link_files(function.hardware)
            is_narrow = number % 3 == 1 and function.path in flapping
            errors = old + (int(at * ERRORS_A_SECOND) if function.path in failing else 0)
            yield at, f"{function.address}/current_link_width:{'8' if is_narrow else files['current_link_width']}"
            yield at, f"{function.address}/current_link_speed:{files['current_link_speed']}"
            yield at, f"{function.address}/aer_dev_correctable:TOTAL_ERR_COR {errors}"


def _ends(setup: Setup, fault: str) -> tuple[str, ...]:
    """The port and the GPU of the slot that a fault hits, by path; none where it is off."""
    gpu = next((gpu for gpu in setup.gpus if setup.hits(fault, gpu.slot)), None)
    return () if gpu is None else (gpu.path.rpartition("/")[0], gpu.path)


def kernel_log(view: View) -> list[str]:
    """The kernel log of this boot as ``dmesg`` prints it, the driver's lines included."""
    timed = [(0.0, f"Linux version {KERNEL_RELEASE}"), (0.0, f"Command line: {command_line(view.faults)}")]
    timed += _tree_lines(_setup(view))
    timed += kernel_lines(view, gpu_addresses(view))
    return [f"[{at:12.6f}] {line}" for at, line in sorted(timed, key=lambda entry: entry[0])]


def gpu_addresses(view: View) -> dict[str, str]:
    """The addresses of the GPUs that a driver can use, by slot, in bus order: they answer and all their BARs have a place."""
    return dict(_usable(_setup(view)))


def command_line(faults: frozenset[str]) -> str:
    """The kernel's command line: without an IOMMU, with one that translates, or with identity domains."""
    if "pcie.iommu" in faults:
        return COMMAND_LINE.replace("iommu=off", _TRANSLATING)
    if "benign.iommu-identity" in faults:
        return COMMAND_LINE.replace("iommu=off", _IDENTITY)
    return COMMAND_LINE


def _setup(view: View) -> Setup:
    """The part of the machine's state that the tree depends on."""
    disabled = frozenset(
        chassis.hba for chassis in CHASSIS if view.bios.get(chassis.hba.removeprefix("PCIe ").replace(" ", "")) == "Disabled"
    )
    faults = frozenset(
        fault for fault in view.faults if fault.startswith(("pcie.", "benign.", "gpu.driver-bound", "gpu.unexpected"))
    )
    return Setup(faults, view.bios.get("MmioAbove4Gb") != "Disabled", disabled, view.populated)


@lru_cache(maxsize=8)
def _enumerated(setup: Setup) -> tuple[Enumerated, ...]:
    """The tree after enumeration, GPUs held by the driver that can hold them. Nobody changes it after this."""
    placed = tuple(enumerate_stack(stack) for stack in stacks(setup))
    name = bound_driver(setup.faults)
    for function in _gpus(placed):
        usable = all(bar.index in function.regions for bar in function.hardware.bars)
        function.hardware = replace(function.hardware, driver=name if usable else "")
    return placed


def write_tree(view: View, folder: Path) -> None:
    """Write the machine's /sys and /proc below an empty folder."""
    _write(_setup(view), view.boot, folder)


def _write(setup: Setup, boot: int, folder: Path) -> None:
    domain = {"pcie.iommu": "DMA-FQ", "benign.iommu-identity": "identity"}
    system = System(
        boot_id=boot_id(boot),
        kernel=KERNEL_RELEASE,
        command_line=command_line(setup.faults),
        machine="PowerEdge R640",
        serial=NEIGHBOUR_TAG if "pcie.machine" in setup.faults else SERVICE_TAG,
        iommu_domain=next((kind for fault, kind in domain.items() if fault in setup.faults), ""),
    )
    write_system(folder, _enumerated(setup), system)


@lru_cache(maxsize=8)
def _agent_lines(setup: Setup, boot: int) -> tuple[str, ...]:
    with TemporaryDirectory(prefix="bringup-model-", dir=_IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None) as folder:
        _write(setup, boot, Path(folder))
        objects = list(read(folder, uid=0))
    objects.append({"kind": "end", "lines": len(objects)})
    return tuple(json.dumps(entry, separators=(",", ":")) for entry in objects)


@lru_cache(maxsize=8)
def _tree_lines(setup: Setup) -> tuple[tuple[float, str], ...]:
    placed = _enumerated(setup)
    refused = invalid_bars(_gpus(placed)) if bound_driver(setup.faults) == "nvidia" else ()
    return (*pcie_lines(placed, setup.faults), *((10.1, line) for line in refused))


@lru_cache(maxsize=8)
def _usable(setup: Setup) -> Mapping[str, str]:
    places = {gpu.path: gpu.slot for gpu in setup.gpus}
    return {
        places[function.path]: function.address
        for function in _gpus(_enumerated(setup))
        if function.hardware.answers and all(bar.index in function.regions for bar in function.hardware.bars)
    }


def _gpus(placed: Sequence[Enumerated]) -> list[Placed]:
    return [function for stack in placed for function in stack.walk() if function.hardware.identity.vendor == _NVIDIA]
