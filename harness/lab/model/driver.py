"""Which kernel driver holds the GPUs of the modelled machine, and what it prints to the kernel log.

    boot ─ nvidia binds every GPU ─ NVML lists every GPU                     healthy
         ├ nouveau binds them       gpu.driver-bound.nouveau
         ├ nothing binds them       gpu.driver-bound.signature
         ├ Xid 48 of one, Xid 31 of another, by a program                    gpu.xids, benign.xid-of-a-program
         ├ RmInitAdapter fails on one: bound, but NVML cannot open it        gpu.nvml-count
         └ a copy wedges: Xid 79, the GPU is off the bus from then on        p2p.watchdog

The log lines have the form that public reports quote: ``RmInitAdapter failed!`` (NVIDIA/open-gpu-kernel-modules#789 and
gpu-operator#649), ``Xid ... 79`` (NVIDIA/NVSentinel#155), an unsigned module under kernel lockdown (Linux security/lockdown).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.lab.model.parts import GPUS, View

DRIVER_VERSION = "535.183.01"
LOADED_AT = 9.6
"""Seconds after the start of the kernel when the driver modules are loaded; an assumption."""

UNINITIALISED = "jbogB/slot07"
FALLEN = "jbogB/slot03"
REPORTED, PROGRAMMED = "jbogA/slot04", "jbogA/slot05"
_XIDS = (
    ("gpu.xids", REPORTED, 61.0, 48, "pid=2114, name=python3, DBE (double bit error)"),
    ("benign.xid-of-a-program", PROGRAMMED, 75.0, 31, "pid=2120, name=python3, MMU Fault"),
)
"""What the driver has said of a GPU since: fault, slot, seconds after it was loaded, number and text."""


def bound_driver(faults: frozenset[str]) -> str:
    """The name of the driver that sysfs shows for every GPU, "" for none."""
    if "gpu.driver-bound.nouveau" in faults:
        return "nouveau"
    return "" if "gpu.driver-bound.signature" in faults else "nvidia"


def kernel_lines(view: View, addresses: Mapping[str, str]) -> tuple[tuple[float, str], ...]:
    """What the driver prints while it loads: (seconds since the start of the kernel, text without stamp).

    ``addresses`` maps slot names of the GPUs that have an address to it, e.g. ``0000:3f:00.0``.
    """
    if "gpu.driver-bound.nouveau" in view.faults:
        return tuple(
            (LOADED_AT + 0.1 * number, f"nouveau {address}: NVIDIA TU102 (162000a1)")
            for number, address in enumerate(addresses.values())
        )
    if "gpu.driver-bound.signature" in view.faults:
        return (
            (LOADED_AT, "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"),
            (LOADED_AT + 0.001, "Loading of module with unavailable key is rejected"),
        )
    lines = [
        (LOADED_AT, "nvidia: loading out-of-tree module taints kernel."),
        (LOADED_AT + 0.4, f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {DRIVER_VERSION}"),
    ]
    if "gpu.nvml-count" in view.faults and UNINITIALISED in addresses:
        number = next(gpu.number for gpu in GPUS if gpu.slot == UNINITIALISED) - 1
        lines += [
            (LOADED_AT + 4.2, f"NVRM: GPU {addresses[UNINITIALISED]}: RmInitAdapter failed! (0x22:0x56:894)"),
            (LOADED_AT + 4.2, f"NVRM: GPU {addresses[UNINITIALISED]}: rm_init_adapter failed, device minor number {number}"),
        ]
    lines += [
        (LOADED_AT + after, f"NVRM: Xid (PCI:{addresses[slot].rpartition('.')[0]}): {number}, {text}")
        for fault, slot, after, number, text in _XIDS
        if fault in view.faults and slot in addresses
    ]
    return tuple(sorted(lines, key=lambda line: line[0]))
