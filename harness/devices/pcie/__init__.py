"""The PCI tree of the machine under test: what the operating system shows, decoded and never judged.

agent "pci" ─ JSON lines ─┐
                          ├─ parse_snapshot ─ Snapshot ─ functions, slots, windows, host, log, unread
dmesg ─ lines ────────────┘
"""

from harness.devices.pcie.config_space import decode_config
from harness.devices.pcie.facts import Function, HostFacts, IommuGroup, Link, PhysicalSlot, Snapshot, Unread
from harness.devices.pcie.kernel_log import (
    BusShortage,
    InvalidBar,
    KernelLog,
    Resource,
    RootResource,
    Shortage,
    Xid,
    parse_kernel_log,
    strip_stamp,
)
from harness.devices.pcie.registers import (
    Acs,
    Aer,
    Capability,
    ConfigSpace,
    Dpc,
    Express,
    LinkRegisters,
    PortType,
    ResizableBar,
    SlotRegisters,
    Sriov,
    generation_of,
    speed_of,
)
from harness.devices.pcie.resources import Bar, Role, RootWindow
from harness.devices.pcie.snapshot import parse_snapshot, read_snapshot

__all__ = [
    "Acs",
    "Aer",
    "Bar",
    "BusShortage",
    "Capability",
    "ConfigSpace",
    "Dpc",
    "Express",
    "Function",
    "HostFacts",
    "InvalidBar",
    "IommuGroup",
    "KernelLog",
    "Link",
    "LinkRegisters",
    "PhysicalSlot",
    "PortType",
    "ResizableBar",
    "Resource",
    "Role",
    "RootResource",
    "RootWindow",
    "Shortage",
    "SlotRegisters",
    "Snapshot",
    "Sriov",
    "Unread",
    "Xid",
    "decode_config",
    "generation_of",
    "parse_kernel_log",
    "parse_snapshot",
    "read_snapshot",
    "speed_of",
    "strip_stamp",
]
