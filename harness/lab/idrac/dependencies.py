"""What one BIOS attribute does to another, in the shape and with the meaning of recorded registries (NVIDIA/libredfish).

SysProfile != Custom ──▶ PcieAspmL1, ProcCStates, ... read only; each profile forces their values
DellAutoDiscovery != ManualControl ──▶ SlotNBif read only
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.lab.idrac.registry import Value


@dataclass(frozen=True)
class Condition:
    """``attribute`` equals ``value``, or differs from it where ``equal`` is False."""

    attribute: str
    value: str
    equal: bool = True

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds of these attribute values."""
        return (values.get(self.attribute) == self.value) is self.equal


@dataclass(frozen=True)
class Dependency:
    """When any of ``conditions`` holds, ``target``'s property (ReadOnly or CurrentValue) is ``value``."""

    target: str
    property: str
    value: Value
    conditions: tuple[Condition, ...]

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Several conditions are alternatives, as in the recorded registries."""
        return any(condition.holds(values) for condition in self.conditions)

    def entry(self) -> dict[str, Any]:
        """The shape of ``RegistryEntries.Dependencies[]``."""
        return {
            "Dependency": {
                "MapFrom": [
                    {
                        "MapFromAttribute": condition.attribute,
                        "MapFromCondition": "EQU" if condition.equal else "NEQ",
                        "MapFromProperty": "CurrentValue",
                        "MapFromValue": condition.value,
                    }
                    for condition in self.conditions
                ],
                "MapToAttribute": self.target,
                "MapToProperty": self.property,
                "MapToValue": self.value,
            },
            "DependencyFor": self.target,
            "Type": "Map",
        }


def _read_only(target: str, *conditions: Condition) -> Dependency:
    return Dependency(target, "ReadOnly", value=True, conditions=conditions)


_NOT_CUSTOM = Condition("SysProfile", "Custom", equal=False)
_PROFILED: dict[str, dict[str, str]] = {
    "PerfPerWattOptimizedDapc": {"PcieAspmL1": "Enabled", "ProcCStates": "Enabled", "ProcC1E": "Enabled", "ProcPwrPerf": "SysDbpm"},
    "PerfPerWattOptimizedOs": {"PcieAspmL1": "Enabled", "ProcCStates": "Enabled", "ProcC1E": "Enabled", "ProcPwrPerf": "OsDbpm"},
    "PerfOptimized": {"PcieAspmL1": "Disabled", "ProcCStates": "Disabled", "ProcC1E": "Disabled", "ProcPwrPerf": "MaxPerf"},
    "PerfWorkStationOptimized": {"PcieAspmL1": "Enabled", "ProcCStates": "Enabled", "ProcC1E": "Enabled", "ProcPwrPerf": "MaxPerf"},
}
DEPENDENCIES: tuple[Dependency, ...] = (
    *(_read_only(name, _NOT_CUSTOM) for name in ("PcieAspmL1", "ProcCStates", "ProcC1E", "ProcPwrPerf")),
    *(
        Dependency(name, "CurrentValue", value, (Condition("SysProfile", profile),))
        for profile, forced in _PROFILED.items()
        for name, value in forced.items()
    ),
    _read_only("SecureBoot", Condition("BootMode", "Bios"), Condition("ForceInt10", "Enabled")),
    _read_only("BootMode", Condition("SecureBoot", "Enabled"), Condition("NvmeMode", "Raid")),
    _read_only("ProcX2Apic", Condition("ProcVirtualization", "Disabled")),
    Dependency("ProcX2Apic", "CurrentValue", "Disabled", (Condition("ProcVirtualization", "Disabled"),)),
    _read_only("NodeInterleave", Condition("SubNumaCluster", "Enabled")),
    _read_only("SubNumaCluster", Condition("NodeInterleave", "Enabled")),
    _read_only("AcPwrRcvryUserDelay", Condition("AcPwrRcvryDelay", "User", equal=False)),
    *(_read_only(f"Slot{number}Bif", Condition("DellAutoDiscovery", "ManualControl", equal=False)) for number in (1, 2, 3)),
)
