"""The BIOS attributes of each generation: the 14G ones, and how the others differ from them.

14G early ──(later versions show more)──▶ 14G ──▶ 15G ──▶ 17G

Sources: 14G early, sailfishdell/sailfish (R740, BIOS 0.4.1); 15G, NVIDIA/libredfish (R750, BIOS 1.8.2 and 1.13.2); 17G,
dell/terraform-provider-redfish and NVIDIA/libredfish pull 26, which tell names that are gone and none of the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness.lab.idrac.dependencies import DEPENDENCIES, Condition, Dependency
from harness.lab.idrac.registry import ATTRIBUTES, Attribute, Value


@dataclass(frozen=True)
class Difference:
    """What one generation lacks, has otherwise or has besides."""

    without: frozenset[str] = frozenset()
    instead: tuple[Attribute, ...] = ()
    besides: tuple[Attribute, ...] = ()
    dependencies: tuple[Dependency, ...] = ()

    def applied(self, attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
        """``attributes`` with the difference made; what takes another's place stands in its place."""
        other = {attribute.name: attribute for attribute in self.instead}
        kept = (other.get(attribute.name, attribute) for attribute in attributes if attribute.name not in self.without)
        return (*kept, *self.besides)


@dataclass(frozen=True)
class Generation:
    """The attributes of one generation and what they do to one another."""

    attributes: tuple[Attribute, ...]
    dependencies: tuple[Dependency, ...]

    @property
    def by_name(self) -> dict[str, Attribute]:
        """The attributes by name."""
        return {attribute.name: attribute for attribute in self.attributes}

    def as_delivered(self) -> dict[str, Value]:
        """The values that ``/Bios`` shows on the machine as it comes."""
        return {attribute.name: attribute.initial for attribute in self.attributes if attribute.exposed}

    def settled(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """``values`` with everything forced that depends on something else."""
        done = dict(values)
        for dependency in self.dependencies:
            if dependency.property == "CurrentValue" and dependency.target in done and dependency.holds(done):
                done[dependency.target] = dependency.value
        return done

    def is_locked(self, name: str, values: Mapping[str, Value]) -> bool:
        """Whether another attribute makes ``name`` read only under these values."""
        return any(
            dependency.property == "ReadOnly" and dependency.target == name and dependency.holds(values)
            for dependency in self.dependencies
        )


_14G = {attribute.name: attribute for attribute in ATTRIBUTES}


def _other(name: str, **fields: object) -> Attribute:
    return replace(_14G[name], **fields)  # type: ignore[arg-type]


def _cores(*names: str) -> tuple[Attribute, ...]:
    return tuple(
        Attribute(f"{name}NumCores", "./ProcSettingsRef", "Number of Cores", 20, bounds=(1, 64), read_only=True) for name in names
    )


_EARLY = Difference(
    without=frozenset({"MmioLimit", "PcieBusCustomization", "PCIRootDeviceUnhide", "InBandManageabilityInterface"}),
    instead=(
        _other("AcPwrRcvryUserDelay", exposed=False),
        _other("AssetTag", exposed=False),
        _other("SystemBiosVersion", initial="1.5.6"),
    ),
)
_15G = Difference(
    instead=(
        _other("SystemModelName", initial="PowerEdge R750"),
        _other("SystemBiosVersion", initial="1.13.2"),
        _other("SubNumaCluster", values=("2-Way", "Disabled")),
        _other("SerialComm", values=("OnNoConRedir", "OnConRedir", "Off"), initial="OnConRedir"),
        _other("SerialPortAddress", values=("Com1", "Com2"), initial="Com1"),
        _other("ExtSerialConnector", read_only=True),
        _other("SysProfile", values=("PerfPerWattOptimizedDapc", "PerfPerWattOptimizedOs", "PerfOptimized", "Custom")),
        _other("WorkloadProfile", values=("NotConfigured", "HpcProfile", "LowLatencyOptimizedProfile"), initial="NotConfigured"),
        _other("AcPwrRcvryUserDelay", bounds=(120, 600), initial=120),
    ),
    besides=_cores("Proc1", "Proc2"),
    dependencies=(Dependency("NodeInterleave", "ReadOnly", value=True, conditions=(Condition("SubNumaCluster", "2-Way"),)),),
)
_17G = Difference(
    without=frozenset(
        {
            "RedirAfterBoot",
            "AcPwrRcvry",
            "AcPwrRcvryDelay",
            "AcPwrRcvryUserDelay",
            "IoatEngine",
            "Proc1NumCores",
            "Proc2NumCores",
        }
    ),
    instead=(
        _other("SystemModelName", initial="PowerEdge R670"),
        _other("SystemBiosVersion", initial="1.3.2"),
        _other("BootMode", read_only=True),
    ),
    besides=_cores("Proc0", "Proc1"),
)


def _among(attributes: tuple[Attribute, ...], dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """The dependencies of which every part is there: target, forced value, and each condition's attribute and value."""
    there = {attribute.name: attribute for attribute in attributes}

    def knows(name: str, value: Value) -> bool:
        return name in there and (isinstance(value, bool) or not there[name].reject(value))

    return tuple(
        dependency
        for dependency in dependencies
        if knows(dependency.target, dependency.value)
        and all(knows(condition.attribute, condition.value) for condition in dependency.conditions)
    )


def generation(name: str) -> Generation:
    """The generation of a profile: ``14G early``, ``14G``, ``15G`` or ``17G``. Raises KeyError for another."""
    differences = {"14G early": (_EARLY,), "14G": (), "15G": (_15G,), "17G": (_15G, _17G)}[name]
    attributes = ATTRIBUTES
    dependencies = DEPENDENCIES
    for difference in differences:
        attributes = difference.applied(attributes)
        dependencies = (*dependencies, *difference.dependencies)
    return Generation(attributes, _among(attributes, dependencies))
