"""What the operating system shows of the PCI tree, as frozen facts.

    Snapshot
    ├─ functions: Function     one a bdf, with its Bars, Link, IommuGroup and ConfigSpace
    ├─ slots: PhysicalSlot     what the kernel knows of the chassis
    ├─ windows: RootWindow     what each host bridge may hand out
    ├─ host: HostFacts
    ├─ log: KernelLog          what the kernel said while it built the tree
    └─ unread: Unread          what could not be read: never judged, never taken for "none"

A function's ``path`` survives renumbering of buses: the host bridge as sysfs names it, then one ``device.function`` a hop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.devices.pcie.kernel_log import KernelLog
from harness.devices.pcie.registers import ConfigSpace, generation_of
from harness.devices.pcie.resources import Bar, RootWindow


@dataclass(frozen=True)
class Link:
    """A link as sysfs tells it from one end: speeds in GT/s, widths in lanes; None where the kernel knows nothing."""

    current_speed: float | None = None
    current_width: int | None = None
    max_speed: float | None = None
    max_width: int | None = None

    @property
    def generation(self) -> int | None:
        """The PCIe generation the link runs at now; a GPU at rest idles down to 1."""
        return generation_of(self.current_speed)

    @property
    def max_generation(self) -> int | None:
        """The PCIe generation this end can do."""
        return generation_of(self.max_speed)


@dataclass(frozen=True)
class IommuGroup:
    """The IOMMU group of a function; ``type`` is identity, DMA, DMA-FQ, unmanaged, blocked, or "" where not told."""

    id: str
    type: str


@dataclass(frozen=True)
class Function:
    """One PCI function. Ids are lower hex without 0x, ``class_code`` six digits, a bdf ``0000:3b:00.0``.

    ``parent`` is the bdf of the bridge above, None directly below the host bridge. ``numa_node`` is None where it is not known, and
    -1 where a dump shows that firmware gave none. ``aer`` holds the kernel's counters that
    are not zero, by severity (correctable, nonfatal, fatal); None where the kernel keeps none. ``physical`` is the bdf of
    the physical function of a virtual one, else "". ``config`` is None where nothing could be read.
    """

    bdf: str
    path: str
    parent: str | None = None
    vendor: str = ""
    device: str = ""
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    class_code: str = ""
    revision: str = ""
    bars: tuple[Bar, ...] = ()
    link: Link = Link()
    numa_node: int | None = None
    local_cpulist: str = ""
    iommu_group: IommuGroup | None = None
    driver: str = ""
    power_state: str = ""
    enabled: bool | None = None
    secondary_bus: int | None = None
    subordinate_bus: int | None = None
    aer: Mapping[str, Mapping[str, int]] | None = field(default=None, hash=False)
    sriov_total: int | None = None
    sriov_enabled: int | None = None
    physical: str = ""
    config: ConfigSpace | None = None

    @property
    def id(self) -> str:
        """``vendor:device``, e.g. ``10de:1e30``."""
        return f"{self.vendor}:{self.device}"

    @property
    def subsystem(self) -> str:
        """``vendor:device`` of the card maker, e.g. ``10de:129e``; "" on a bridge."""
        return f"{self.subsystem_vendor}:{self.subsystem_device}" if self.subsystem_vendor else ""

    @property
    def kind(self) -> str:
        """Class and subclass, e.g. ``0302``."""
        return self.class_code[:4]

    @property
    def number(self) -> int:
        """The function number within its device."""
        return int(self.bdf[-1], 16)

    @property
    def is_bridge(self) -> bool:
        """A PCI-to-PCI bridge: root port, switch port."""
        return self.kind == "0604"

    @property
    def is_gpu(self) -> bool:
        """A VGA-compatible (0300) or 3D (0302) controller."""
        return self.kind in ("0300", "0302")

    @property
    def is_virtual(self) -> bool:
        """An SR-IOV virtual function."""
        return bool(self.physical)

    @property
    def is_gone(self) -> bool:
        """Its configuration space answers all ones."""
        return self.config is not None and self.config.gone

    @property
    def root(self) -> str:
        """The host bridge, e.g. ``pci0000:3a``."""
        return self.path.split("/", 1)[0]

    def bar(self, index: int) -> Bar | None:
        """The resource of that index, as kernel messages number them; None where there is none."""
        return next((bar for bar in self.bars if bar.index == index), None)

    def __str__(self) -> str:
        return f"{self.bdf} [{self.id}]"


@dataclass(frozen=True)
class PhysicalSlot:
    """A slot as the kernel knows it; ``address`` is ``domain:bus:device`` without a function."""

    name: str
    address: str


@dataclass(frozen=True)
class HostFacts:
    """The system under the tree. ``iommus`` are the IOMMU units that the kernel runs; ``uid`` who read.

    ``machine`` and ``serial`` are those of the firmware's tables (SMBIOS type 1); a Dell's serial is its service tag, and only
    root may read it.
    """

    kernel: str = ""
    uid: int = -1
    python: str = ""
    command_line: str = ""
    boot_id: str = ""
    machine: str = ""
    serial: str = ""
    iommus: tuple[str, ...] = ()

    @property
    def is_root(self) -> bool:
        """True where the snapshot was taken as root."""
        return self.uid == 0


@dataclass(frozen=True)
class Unread:
    """Something that could not be read: what (``of`` which functions), why, and what a person can do about it."""

    what: str
    why: str
    do: str = ""
    of: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = f" of {len(self.of)} function{'s' if len(self.of) != 1 else ''}" if self.of else ""
        return f"{self.what}{count}: {self.why}{f'; {self.do}' if self.do else ''}"


@dataclass(frozen=True)
class Snapshot:
    """The whole tree at one moment; ``functions`` sorted by bdf."""

    functions: tuple[Function, ...]
    host: HostFacts = HostFacts()
    slots: tuple[PhysicalSlot, ...] = ()
    windows: tuple[RootWindow, ...] = ()
    unread: tuple[Unread, ...] = ()
    log: KernelLog = field(default_factory=KernelLog)

    @cached_property
    def by_bdf(self) -> Mapping[str, Function]:
        """The functions by address."""
        return {function.bdf: function for function in self.functions}

    @cached_property
    def by_path(self) -> Mapping[str, Function]:
        """The functions by their walk through the tree."""
        return {function.path: function for function in self.functions}

    @cached_property
    def _by_parent(self) -> Mapping[str, tuple[Function, ...]]:
        children: dict[str, tuple[Function, ...]] = {}
        for function in self.functions:
            if function.parent is not None:
                children[function.parent] = (*children.get(function.parent, ()), function)
        return children

    @property
    def gpus(self) -> tuple[Function, ...]:
        """Every GPU function that is not virtual."""
        return tuple(function for function in self.functions if function.is_gpu and not function.is_virtual)

    def at(self, path: str) -> Function | None:
        """The function at a path, or None."""
        return self.by_path.get(path)

    def children(self, bridge: Function) -> tuple[Function, ...]:
        """What sits directly below ``bridge``, sorted by bdf."""
        return self._by_parent.get(bridge.bdf, ())

    def below(self, bridge: Function) -> tuple[Function, ...]:
        """Everything below ``bridge``, sorted by bdf."""
        return tuple(function for function in self.functions if function.path.startswith(f"{bridge.path}/"))

    def parent(self, function: Function) -> Function | None:
        """The bridge above, or None below the host bridge."""
        return None if function.parent is None else self.by_bdf.get(function.parent)

    def chain_up(self, function: Function) -> tuple[Function, ...]:
        """``function`` itself, the bridge above it, and so on up to the root port."""
        chain = [function]
        while (above := self.parent(chain[-1])) is not None and above not in chain:
            chain.append(above)
        return tuple(chain)

    def siblings(self, function: Function) -> tuple[Function, ...]:
        """The other functions of the same device, e.g. a GPU's audio and USB controllers."""
        device = function.bdf[:-1]
        return tuple(other for other in self.functions if other.bdf[:-1] == device and other.bdf != function.bdf)

    def slot_of(self, function: Function) -> PhysicalSlot | None:
        """The kernel's slot that the device sits in, or None."""
        return next((slot for slot in self.slots if slot.address == function.bdf.rsplit(".", 1)[0]), None)

    def iommu(self, function: Function) -> str | None:
        """How the IOMMU treats the function: ``off``, ``identity`` or the translating domain's type.

        None where the kernel runs an IOMMU but does not tell the domain's type, as old kernels do: not measured.
        """
        if function.iommu_group is None:
            return "off"
        return function.iommu_group.type or None
