"""The BIOS attributes of the modelled R640: types and values.

Names, types and values are those of public iDRAC9 captures of 14G machines: sailfishdell/sailfish (R740, BIOS 0.4.1) for the
registry, djsincla/GroundZero (R740xd, BIOS 2.24.0) for later values and for the hidden PcieBusCustomization. Help texts are
not repeated.

As on the real machine the registry holds more than ``/Bios`` shows (``exposed``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Value = str | int

_SWITCH = ("Enabled", "Disabled")


@dataclass(frozen=True)
class Attribute:
    """One registry entry; ``initial`` is the value as delivered, ``exposed`` whether ``/Bios`` shows it."""

    name: str
    menu: str
    display: str
    initial: Value
    values: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None
    pattern: str = ""
    length: int = 0
    read_only: bool = False
    hidden: bool = False
    exposed: bool = True
    password: bool = False

    @property
    def type(self) -> str:
        """Enumeration, Integer, String or Password, as the registry spells it."""
        if self.password:
            return "Password"
        if self.values:
            return "Enumeration"
        return "Integer" if self.bounds else "String"

    def reject(self, value: object) -> str:
        """The bare message id with which iDRAC refuses ``value``, or "" where the value itself is fine."""
        if self.type == "Integer":
            if isinstance(value, bool) or not isinstance(value, int):
                return "SYS424"
            low, high = self.bounds or (0, 0)
            return "" if low <= value <= high else "SYS425"
        if not isinstance(value, str):
            return "SYS424"
        if self.values:
            return "" if value in self.values else "SYS426"
        if len(value) > self.length or (self.pattern and not re.fullmatch(self.pattern, value)):
            return "SYS425"
        return ""

    def entry(self, order: int) -> dict[str, Any]:
        """The entry in the shape of ``RegistryEntries.Attributes[]``; as on Dell there is no DefaultValue."""
        entry: dict[str, Any] = {
            "AttributeName": self.name,
            "CurrentValue": None,
            "DisplayName": self.display,
            "DisplayOrder": order,
            "HelpText": "",
            "Hidden": self.hidden,
            "Immutable": self.read_only,
            "MenuPath": self.menu,
            "ReadOnly": self.read_only,
            "ResetRequired": True,
            "Type": self.type,
            "WarningText": None,
            "WriteOnly": self.password,
        }
        if self.values:
            entry["Value"] = [{"ValueDisplayName": value, "ValueName": value} for value in self.values]
        elif self.bounds:
            entry |= {"LowerBound": self.bounds[0], "UpperBound": self.bounds[1], "ScalarIncrement": 0}
        else:
            entry |= {"MinLength": 0, "MaxLength": self.length, "ValueExpression": self.pattern or None}
        return entry


def _switch(name: str, menu: str, display: str, initial: str) -> Attribute:
    return Attribute(name, menu, display, initial, _SWITCH)


def _choice(name: str, menu: str, display: str, values: tuple[str, ...], initial: str, *, is_shown: bool = True) -> Attribute:
    return Attribute(name, menu, display, initial, values, hidden=not is_shown, exposed=is_shown)


def _fact(name: str, menu: str, display: str, initial: str, length: int) -> Attribute:
    return Attribute(name, menu, display, initial, length=length, read_only=True)


_INFO = "./SysInformationRef"
_MEMORY = "./MemSettingsRef"
_PROCESSOR = "./ProcSettingsRef"
_BOOT = "./BootSettingsRef"
_DEVICES = "./IntegratedDevicesRef"
_BIFURCATION = "./IntegratedDevicesRef/SlotBifurcationRef"
_SLOTS = "./IntegratedDevicesRef/SlotDisablementRef"
_SERIAL = "./SerialCommSettingsRef"
_PROFILE = "./SysProfileSettingsRef"
_SECURITY = "./SysSecurityRef"
_MISC = "./MiscSettingsRef"

_SLOT_STATES = ("Enabled", "Disabled", "BootDriverDisabled")
_BIFURCATIONS = ("x16", "x4", "x8", "x4x4x8", "x8x4x4")
_WORKLOADS = (
    "NotAvailable",
    "HpcProfile",
    "LowLatencyOptimizedProfile",
    "VtOptimizedProfile",
    "VtPerWattOptimizedProfile",
    "DbOptimizedProfile",
    "DbPerWattOptimizedProfile",
    "SsdOptimizedProfile",
    "SsdPerWattOptimizedProfile",
)
_PROFILES = (
    "PerfPerWattOptimizedDapc",
    "PerfPerWattOptimizedOs",
    "PerfOptimized",
    "PerfWorkStationOptimized",
    "Custom",
)
_REDIRECTIONS = ("OnNoConRedir", "OnConRedirAuto", "OnConRedirCom1", "OnConRedirCom2", "Off")

BIOS_VERSION = "2.21.2"
"""A late 14G version, far from the denied 2.4.7; the model has no opinion on which is needed."""

ATTRIBUTES: tuple[Attribute, ...] = (
    _fact("SystemModelName", _INFO, "System Model Name", "PowerEdge R640", 40),
    _fact("SystemBiosVersion", _INFO, "System BIOS Version", BIOS_VERSION, 48),
    _fact("SysMemSize", _MEMORY, "System Memory Size", "384 GB", 16),
    _switch("MemTest", _MEMORY, "System Memory Testing", "Disabled"),
    _switch("NodeInterleave", _MEMORY, "Node Interleaving", "Disabled"),
    _switch("LogicalProc", _PROCESSOR, "Logical Processor", "Enabled"),
    _switch("ProcVirtualization", _PROCESSOR, "Virtualization Technology", "Enabled"),
    _switch("SubNumaCluster", _PROCESSOR, "Sub NUMA Cluster", "Disabled"),
    _switch("ProcX2Apic", _PROCESSOR, "x2APIC Mode", "Disabled"),
    _choice("EmbSata", "./SataSettingsRef", "Embedded SATA", ("AhciMode", "RaidMode", "Off"), "AhciMode"),
    _choice("NvmeMode", "./NvmeSettingsRef", "NVMe Mode", ("NonRaid", "Raid"), "NonRaid"),
    _choice("BootMode", _BOOT, "Boot Mode", ("Bios", "Uefi"), "Uefi"),
    _switch("BootSeqRetry", _BOOT, "Boot Sequence Retry", "Enabled"),
    _switch("IoatEngine", _DEVICES, "I/OAT DMA Engine", "Disabled"),
    _switch("EmbVideo", _DEVICES, "Embedded Video Controller", "Enabled"),
    _fact("CurrentEmbVideoState", _DEVICES, "Current State of Embedded Video Controller", "Enabled", 9),
    _switch("SriovGlobalEnable", _DEVICES, "SR-IOV Global Enable", "Disabled"),
    _switch("OsWatchdogTimer", _DEVICES, "OS Watchdog Timer", "Enabled"),
    _switch("PCIRootDeviceUnhide", _DEVICES, "Empty Slot Unhide", "Disabled"),
    _switch("MmioAbove4Gb", _DEVICES, "Memory Mapped I/O above 4GB", "Disabled"),
    _choice("MemoryMappedIOH", _DEVICES, "Memory Mapped I/O Base", ("56TB", "12TB", "512GB"), "56TB"),
    _choice("MmioLimit", _DEVICES, "Memory Mapped I/O Limit", ("8TB", "1TB"), "8TB", is_shown=False),
    _choice(
        "PcieBusCustomization",
        _DEVICES,
        "PCIe Bus Customization",
        ("PcieBusUniform", "PcieBusCustomOpt1", "PcieBusCustomOpt2", "PcieBusCustomOpt3"),
        "PcieBusUniform",
        is_shown=False,
    ),
    _choice(
        "DellAutoDiscovery",
        _BIFURCATION,
        "Auto Discovery Bifurcation Settings",
        ("PlatformDefault", "AutoDiscovery", "ManualControl"),
        "PlatformDefault",
    ),
    _choice("Slot1Bif", _BIFURCATION, "Slot 1 Bifurcation", _BIFURCATIONS, "x16"),
    _choice("Slot2Bif", _BIFURCATION, "Slot 2 Bifurcation", _BIFURCATIONS, "x16"),
    _choice("Slot3Bif", _BIFURCATION, "Slot 3 Bifurcation", _BIFURCATIONS, "x16"),
    _choice("Slot1", _SLOTS, "Slot 1", _SLOT_STATES, "Enabled"),
    _choice("Slot2", _SLOTS, "Slot 2", _SLOT_STATES, "Enabled"),
    _choice("Slot3", _SLOTS, "Slot 3", _SLOT_STATES, "Enabled"),
    _choice("SerialComm", _SERIAL, "Serial Communication", _REDIRECTIONS, "OnConRedirCom1"),
    _choice(
        "SerialPortAddress",
        _SERIAL,
        "Serial Port Address",
        ("Serial1Com1Serial2Com2", "Serial1Com2Serial2Com1"),
        "Serial1Com2Serial2Com1",
    ),
    _choice("ExtSerialConnector", _SERIAL, "External Serial Connector", ("Serial1", "Serial2", "RemoteAccDevice"), "Serial1"),
    _choice("FailSafeBaud", _SERIAL, "Failsafe Baud Rate", ("115200", "57600", "19200", "9600"), "115200"),
    _choice("ConTermType", _SERIAL, "Remote Terminal Type", ("Vt100Vt220", "Ansi"), "Vt100Vt220"),
    _switch("RedirAfterBoot", _SERIAL, "Redirection After Boot", "Enabled"),
    _choice("SysProfile", _PROFILE, "System Profile", _PROFILES, "PerfPerWattOptimizedDapc"),
    _choice("ProcPwrPerf", _PROFILE, "CPU Power Management", ("SysDbpm", "OsDbpm", "MaxPerf"), "SysDbpm"),
    _switch("ProcC1E", _PROFILE, "C1E", "Enabled"),
    _switch("ProcCStates", _PROFILE, "C States", "Enabled"),
    _switch("PcieAspmL1", _PROFILE, "PCI ASPM L1 Link Power Management", "Enabled"),
    _choice("WorkloadProfile", _PROFILE, "Workload Profile", _WORKLOADS, "NotAvailable"),
    Attribute(
        "SetupPassword", _SECURITY, "Setup Password", "", pattern=r"[\x20-\x7e]{0,32}", length=32, exposed=False, password=True
    ),
    _choice("AcPwrRcvry", _SECURITY, "AC Power Recovery", ("Last", "On", "Off"), "Last"),
    _choice("AcPwrRcvryDelay", _SECURITY, "AC Power Recovery Delay", ("Immediate", "Random", "User"), "Immediate"),
    Attribute("AcPwrRcvryUserDelay", _SECURITY, "User Defined Delay (60s to 240s)", 60, bounds=(60, 240)),
    _choice("UefiVariableAccess", _SECURITY, "UEFI Variable Access", ("Standard", "Controlled"), "Standard"),
    _switch("InBandManageabilityInterface", _SECURITY, "In-Band Manageability Interface", "Enabled"),
    _switch("SecureBoot", _SECURITY, "Secure Boot", "Disabled"),
    _choice("SecureBootPolicy", _SECURITY, "Secure Boot Policy", ("Standard", "Custom"), "Standard"),
    Attribute("AssetTag", _MISC, "Asset Tag", "", pattern=r"[ -~]{0,63}", length=63),
    _choice("NumLock", _MISC, "Keyboard NumLock", ("On", "Off"), "On"),
    _switch("ErrPrompt", _MISC, "F1/F2 Prompt on Error", "Enabled"),
    _switch("ForceInt10", _MISC, "Force Int 10", "Disabled"),
    _choice("PowerCycleRequest", _MISC, "Power Cycle Request", ("None", "FullPowerCycle"), "None"),
)

REQUESTS = frozenset({"WorkloadProfile", "PowerCycleRequest"})
"""Attributes that ask for something once and then read back at rest (dell/dellemc-openmanage-ansible-modules#1072)."""
