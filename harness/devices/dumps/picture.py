"""One picture of a machine from everything that its files tell; which file told what is kept.

    harvests ─ by address, the most trusted format first, the last sample of a format before its earlier ones ─ Function
             ─ kernel logs one after the other ─ KernelLog, events
             ─ GPUs of the driver by address, else by UUID ─ DriverGpu

Where several samples of one machine are given, ``samples`` keeps them all, so that what changes between them can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from harness.devices.dumps.harvest import DriverGpu, FirmwareLine, FirmwareSlot, Format, Harvest, Matrix
from harness.devices.pcie import ConfigSpace, Function, Link, Snapshot, Unread, parse_kernel_log, strip_stamp
from harness.devices.pcie.kernel_events import Event, parse_kernel_events
from harness.devices.pcie.kernel_log import RootResource
from harness.devices.pcie.resources import RootWindow

_RANK = {form: number for number, form in enumerate(Format)}
_TREES = (Format.SYSFS, Format.UDEV, Format.HWLOC, Format.LSPCI_TREE)
_LISTS = (Format.SYSFS, Format.LSPCI_HEX, Format.LSPCI, Format.LSPCI_MACHINE, Format.UDEV)
_DRIVER = (Format.SMI_XML, Format.SMI_QUERY, Format.SMI_TABLE)
_DISPLAY_OF_BOARDS = ("102b", "1a03", "1234", "1af4", "15ad", "1013", "1b36", "18ca", "19e5")
"""Makers of the display controllers of management boards and virtual machines (Matrox, ASPEED, QEMU, VMware, ...): no GPUs."""


@dataclass(frozen=True)
class Picture:
    """Everything that is known of a machine. ``bars_from`` tells by address which format told the BARs."""

    snapshot: Snapshot
    harvests: tuple[Harvest, ...] = ()
    events: tuple[Event, ...] = ()
    gpus: tuple[DriverGpu, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    slots: tuple[FirmwareSlot, ...] = ()
    firmware: tuple[FirmwareLine, ...] = ()
    system: Mapping[str, str] = field(default_factory=dict, hash=False)
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    bars_from: Mapping[str, Format] = field(default_factory=dict, hash=False)
    samples: Mapping[str, tuple[tuple[str, Function], ...]] = field(default_factory=dict, hash=False)

    def has(self, *forms: Format) -> bool:
        """True where a file of one of the formats was given."""
        return any(harvest.format in forms for harvest in self.harvests)

    @cached_property
    def on_bus(self) -> tuple[Function, ...]:
        """The GPUs that sit on the bus; the display controller of a management board is none."""
        return tuple(function for function in self.snapshot.gpus if function.vendor not in _DISPLAY_OF_BOARDS)

    @cached_property
    def usual_bars(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        """By kind of GPU (id, subsystem) the memory BARs that most of that kind have: index to the largest size with a place."""
        counted: dict[tuple[str, str], list[dict[int, int]]] = {}
        for function in self.on_bus:
            if function.bars:
                sizes = {bar.index: bar.size if bar.assigned else 0 for bar in function.bars if bar.index < 6 and bar.is_memory}
                counted.setdefault((function.id, function.subsystem), []).append(sizes)
        return {
            kind: {
                index: max(sizes.get(index, 0) for sizes in each)
                for index in {index for sizes in each for index in sizes}
                if sum(index in sizes for sizes in each) * 2 > len(each)
            }
            for kind, each in counted.items()
        }

    @cached_property
    def by_root(self) -> Mapping[str, tuple[Function, ...]]:
        """The GPUs on the bus by the host bridge that they are behind."""
        grouped: dict[str, list[Function]] = {}
        for function in self.on_bus:
            grouped.setdefault(function.root, []).append(function)
        return {root: tuple(functions) for root, functions in grouped.items()}

    @property
    def lists_bus(self) -> bool:
        """True where a file lists what is on the bus now, so that what it does not list is not there."""
        return self.has(*_LISTS)

    @property
    def lists_driver(self) -> bool:
        """True where the driver was asked for all of its GPUs."""
        return any(harvest.format in _DRIVER and (harvest.gpus or harvest.claimed is not None) for harvest in self.harvests)

    @property
    def claimed(self) -> int | None:
        """How many GPUs the driver said that there are."""
        return next((harvest.claimed for harvest in reversed(self.harvests) if harvest.claimed is not None), None)

    def source_of(self, line: str) -> str:
        """The file that a line of a kernel log is from; "" for a line of none."""
        return self._sources.get(line, "")

    @cached_property
    def _sources(self) -> Mapping[str, str]:
        quoted = {event.line for event in self.events}
        log = self.snapshot.log
        for found in (log.shortages, log.buses, log.invalid_bars, log.xids):
            quoted |= {each.line for each in found}
        told: dict[str, str] = {}
        for harvest in self.harvests:
            for line in harvest.lines:
                if (bare := strip_stamp(line)) in quoted:
                    told.setdefault(bare, harvest.source)
        return told

    def label(self, bdf: str) -> str:
        """An address with what a person knows it by: its slot, and its name where a file told one."""
        short = f"{bdf.rsplit('.', 1)[0]}."
        slot = next((slot.name for slot in self.slots if slot.address and slot.address.startswith(short)), "")
        driver = next((gpu.name for gpu in self.gpus if gpu.address == bdf and gpu.name), "")
        name = driver or self.names.get(bdf, "")
        return " ".join(word for word in (bdf, f"({slot})" if slot else "", name) if word)

    def root_of(self, bdf: str) -> str:
        """The host bridge above an address, by the tree, else by the bus ranges of the kernel log; "" where unknown."""
        function = self.snapshot.by_bdf.get(bdf)
        domain, bus, _ = bdf.split(":")
        ranges = [root for root in self.snapshot.log.roots if root.kind == "bus" and root.root.startswith(f"pci{domain}:")]
        told = next((root.root for root in ranges if root.start <= int(bus, 16) <= root.end), "")
        return told or ("" if function is None else function.root)

    def windows_of(self, root: str) -> tuple[RootWindow, ...]:
        """The memory windows of a host bridge that are large enough to matter, as the kernel log tells them."""
        return tuple(
            window for window in self.snapshot.windows if window.root == root and not window.is_io and window.size >= 1 << 20
        )


def merge(harvests: Sequence[Harvest]) -> Picture:
    """Merge what the files of one machine tell."""
    ordered = sorted(enumerate(harvests), key=lambda entry: (_RANK[entry[1].format], -entry[0]))
    told: dict[str, list[tuple[Format, Function]]] = {}
    for _, harvest in ordered:
        for function in harvest.functions:
            told.setdefault(function.bdf, []).append((harvest.format, function))
    folded = {bdf: _fold(parts) for bdf, parts in told.items() if bdf}
    bars_from = {bdf: next((form for form, function in parts if function.bars), Format.KERNEL_LOG) for bdf, parts in told.items()}
    lines = tuple(line for harvest in harvests for line in harvest.lines)
    log = parse_kernel_log(lines)
    parents = _parents(folded, told)
    roots = tuple(root for root in log.roots if root.kind == "bus")
    functions = tuple(
        replace(function, parent=parents[bdf], path=_path(bdf, parents, roots)) for bdf, function in sorted(folded.items())
    )
    return Picture(
        Snapshot(
            functions,
            windows=tuple(dict.fromkeys(window for harvest in harvests for window in harvest.windows)),
            unread=_unread(harvests, reaches_boot=log.reaches_boot or not lines),
            log=log,
        ),
        tuple(harvests),
        parse_kernel_events(lines),
        _gpus(harvests),
        tuple(harvest.matrix for harvest in harvests if harvest.matrix is not None),
        tuple(dict.fromkeys(slot for harvest in harvests for slot in harvest.slots)),
        tuple(dict.fromkeys(line for harvest in harvests for line in harvest.firmware)),
        {key: value for harvest in reversed(harvests) for key, value in harvest.system.items()},
        {bdf: name for _, harvest in reversed(ordered) for bdf, name in harvest.names.items() if name},
        bars_from,
        _samples(harvests),
    )


def _fold(parts: Sequence[tuple[Format, Function]]) -> Function:
    """One function of several: each fact from the first that tells it."""
    first = parts[0][1]
    if len(parts) == 1:
        return first
    empty = Function("", "")
    changed = {}
    for about in fields(Function):
        name = about.name
        if name in ("bdf", "path", "parent", "config", "link"):
            continue
        unset = getattr(empty, name)
        changed[name] = next((value for _, part in parts if (value := getattr(part, name)) != unset), unset)
    changed["config"] = _fullest([part.config for _, part in parts if part.config is not None])
    changed["link"] = next((part.link for _, part in parts if part.link.current_width is not None), Link())
    return replace(first, **changed)


def _fullest(configs: Sequence[ConfigSpace]) -> ConfigSpace | None:
    """The first that is whole or gone, else the first that tells of a link, else any."""
    for wanted in (lambda config: config.gone or config.is_extended, lambda config: config.express is not None, lambda _: True):
        if found := next((config for config in configs if wanted(config)), None):
            return found
    return None


def _parents(folded: Mapping[str, Function], told: Mapping[str, Sequence[tuple[Format, Function]]]) -> dict[str, str | None]:
    """The bridge above each: as a tree shows it, else the bridge whose secondary bus it sits on."""
    bridges: dict[str, str] = {}
    for function in folded.values():
        if function.secondary_bus:
            bridges.setdefault(f"{function.bdf.split(':')[0]}:{function.secondary_bus:02x}", function.bdf)
    parents: dict[str, str | None] = {}
    for bdf, parts in told.items():
        if not bdf:
            continue
        drawn = next((part.parent for form, part in parts if form in _TREES and part.parent), None)
        by_bus = bridges.get(bdf.rsplit(":", 1)[0])
        folded_by = next((part.parent for form, part in parts if form is Format.NCCL and part.parent), None)
        found = drawn or by_bus or folded_by
        parents[bdf] = found if found != bdf and found in folded else None
    return parents


def _path(bdf: str, parents: Mapping[str, str | None], ranges: Sequence[RootResource]) -> str:
    walk = [bdf]
    while (above := parents.get(walk[-1])) is not None and above not in walk:
        walk.append(above)
    domain, bus, _ = walk[-1].split(":")
    number = int(bus, 16)
    root = next((each.root for each in ranges if each.root.startswith(f"pci{domain}:") and each.start <= number <= each.end), "")
    is_whole = root == f"pci{domain}:{bus}" or not root
    return "/".join([root if not is_whole else f"pci{domain}:{bus}", *(hop.rsplit(":", 1)[1] for hop in reversed(walk))])


def _gpus(harvests: Sequence[Harvest]) -> tuple[DriverGpu, ...]:
    """The driver's GPUs, each fact from the last file that tells it; one without address is joined by UUID."""
    merged: dict[str, DriverGpu] = {}
    for harvest in sorted(harvests, key=lambda harvest: -_RANK[harvest.format]):
        for gpu in harvest.gpus:
            same = next(
                (
                    key
                    for key, known in merged.items()
                    if gpu.uuid and known.uuid == gpu.uuid and not (gpu.address and known.address)
                ),
                "",
            )
            key = gpu.address or same or gpu.uuid
            known = merged.pop(same or key, None)
            merged[key] = gpu if known is None else _newest(known, gpu)
    return tuple(sorted(merged.values(), key=lambda gpu: (gpu.address, gpu.uuid)))


def _newest(known: DriverGpu, gpu: DriverGpu) -> DriverGpu:
    told = {about.name: value for about in fields(DriverGpu) if (value := getattr(gpu, about.name)) not in (None, "", ())}
    return replace(known, **told)


def _samples(harvests: Iterable[Harvest]) -> dict[str, tuple[tuple[str, Function], ...]]:
    """By address, what each file with registers or BARs showed; only where two or more did."""
    found: dict[str, list[tuple[str, Function]]] = {}
    for harvest in harvests:
        if harvest.format in (Format.LSPCI, Format.LSPCI_HEX, Format.SYSFS):
            for function in harvest.functions:
                if function.bars or function.link.current_width is not None:
                    found.setdefault(function.bdf, []).append((harvest.source, function))
    return {bdf: tuple(samples) for bdf, samples in found.items() if len(samples) > 1}


def _unread(harvests: Sequence[Harvest], *, reaches_boot: bool) -> tuple[Unread, ...]:
    """What these files cannot tell."""
    formats = {harvest.format for harvest in harvests}
    unread = [unread for harvest in harvests for unread in harvest.unread]
    if not formats & {Format.SYSFS, Format.LSPCI, Format.LSPCI_HEX}:
        unread.append(
            Unread("BARs, links and error registers", "no lspci -vvv among the files", "mail lspci -Dnnvvvxxxx, run as root")
        )
    if Format.KERNEL_LOG not in formats:
        unread.append(Unread("the kernel log", "not among the files", "mail dmesg, or journalctl -k -b"))
    elif not reaches_boot:
        unread.append(Unread("the kernel log of the boot", "it begins later", "mail journalctl -k -b, or boot with log_buf_len=4M"))
    if not formats & set(_DRIVER):
        unread.append(Unread("the driver's view", "no nvidia-smi among the files", "mail nvidia-smi -q -x"))
    groups = [function.iommu_group for harvest in harvests for function in harvest.functions if function.is_gpu]
    if any(group is not None for group in groups) and not any(group is not None and group.type for group in groups):
        unread.append(
            Unread("whether the IOMMU translates", "the types of its groups are in no file", "mail /sys/kernel/iommu_groups/*/type")
        )
    unread.append(Unread("bandwidth between GPUs", "no file shows it", "measure it: it can collapse with every register in order"))
    return tuple(dict.fromkeys(unread))
