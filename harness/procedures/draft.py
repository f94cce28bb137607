"""A first bench and platform file from what a machine shows, for a person to check.

    agent pci ─ Snapshot ─┬─ places     function 0 of what sits behind a bridge, and every NVIDIA GPU wherever it sits;
                          │             on a machine without bridges (most virtual ones) every device
                          ├─ models     one for each vendor:device and subsystem: class, BARs, link
                          └─ platform and bench text, the same for the same machine

A draft says what *is*; whether it should be so only a person knows. So every figure that is not the same everywhere, or that
is below what both ends can do, has a comment beside it, and nothing is invented for what could not be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.bench import load_bench
from harness.devices.host import Host
from harness.devices.pcie import Function, Snapshot, parse_snapshot, speed_of
from harness.errors import ConfigError
from harness.platform import load_platform

_NVIDIA = "10de"
_ENCODING = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130}
_KINDS = {
    "0300": "VGA controller", "0302": "3D controller", "0108": "NVMe drive", "01": "storage controller",
    "02": "network controller", "03": "display controller", "04": "multimedia device", "05": "memory controller",
    "07": "communication controller", "0c": "bus controller", "10": "encryption controller", "12": "accelerator",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A slot of the draft: its name, what sits there now, and the kernel's slot that it hangs from ("" where unknown)."""

    name: str
    function: Function
    hba: str


@dataclass(frozen=True)
class Kind:
    """A model of the draft: all places with the same ids. ``links`` are the (generation, width) that both ends can do."""

    name: str
    places: tuple[Place, ...]
    links: tuple[tuple[int, int] | None, ...]

    @property
    def first(self) -> Function:
        """The one that stands for all."""
        return self.places[0].function

    @property
    def link(self) -> tuple[int, int] | None:
        """The link, where it is known and the same in all places."""
        return self.links[0] if len(set(self.links)) == 1 else None


def draft_local(host: Host, name: str = "local") -> tuple[str, str]:
    """The texts of a bench file and of a platform file, both called ``name``, for the machine behind ``host``.

    Raises ConfigError where the machine shows no PCI device that could sit in a slot, or where ``name`` is none; BenchError
    where the agent cannot run there.
    """
    return draft(parse_snapshot(host.agent("pci")), name)


def draft(snapshot: Snapshot, name: str) -> tuple[str, str]:
    """The texts of a bench file and of a platform file for a machine that was read before."""
    places = _places(snapshot)
    if not places:
        raise ConfigError(f"draft {name}", _nothing(snapshot))
    bench = "\n".join(_bench(snapshot, name)) + "\n"
    platform = "\n".join(_platform(snapshot, name, places)) + "\n"
    load_bench(bench, f"draft {name}")
    load_platform(platform, f"draft {name}")
    return bench, platform


def _nothing(snapshot: Snapshot) -> str:
    if snapshot.functions:
        return f"the machine shows {len(snapshot.functions)} PCI functions, all of them bridges: no slot to expect anything in"
    why = "; ".join(str(unread) for unread in snapshot.unread)
    return f"the machine shows no PCI device, so there is no slot to expect anything in{f' ({why})' if why else ''}"


def _places(snapshot: Snapshot) -> tuple[Place, ...]:
    devices = [function for function in snapshot.functions if _is_device(function)]
    chosen = [function for function in devices if function.parent is not None or _is_nvidia_gpu(function)] or devices
    places: list[Place] = []
    for function in sorted(chosen, key=lambda function: function.path):
        slot = snapshot.slot_of(function)
        name = "" if slot is None else _slot_name(slot.name)
        if not name or any(place.name == name for place in places):
            name = f"slot-{re.sub('[:/]', '-', function.path.removeprefix('pci').removeprefix('0000:'))}"
        above = (snapshot.slot_of(bridge) for bridge in snapshot.chain_up(function)[1:])
        hba = next((_slot_name(slot.name) for slot in above if slot is not None), "")
        places.append(Place(name, function, hba))
    return tuple(places)


def _is_device(function: Function) -> bool:
    """Function 0 of anything but a bridge (class 06) or a virtual function."""
    return function.number == 0 and not function.class_code.startswith("06") and not function.is_virtual


def _is_nvidia_gpu(function: Function) -> bool:
    return function.is_gpu and function.vendor == _NVIDIA


def _slot_name(kernel_name: str) -> str:
    """The kernel's name for a slot is often a bare number, which says little in a report."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", kernel_name).strip("-")
    return f"slot{name}" if name[:1].isdigit() else name


def _kinds(snapshot: Snapshot, places: Sequence[Place]) -> tuple[Kind, ...]:
    grouped: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        grouped.setdefault((place.function.id, _subsystem(place.function)), []).append(place)
    kinds = []
    for (device, subsystem), members in sorted(grouped.items()):
        first = members[0].function
        what = _KINDS.get(first.kind) or _KINDS.get(first.kind[:2], "device")
        name = f"{what} {device}{f' ({subsystem})' if subsystem else ''}"
        kinds.append(Kind(name, tuple(members), tuple(_link(snapshot, member.function) for member in members)))
    return tuple(kinds)


def _subsystem(function: Function) -> str:
    return "" if function.subsystem in ("", "0000:0000") else function.subsystem


def _link(snapshot: Snapshot, function: Function) -> tuple[int, int] | None:
    """The generation and width that the function and the port above it can both do; None where not known."""
    parent = snapshot.parent(function)
    ends = [end.link for end in (function, parent) if end is not None]
    generations = [link.max_generation for link in ends if link.max_generation]
    widths = [link.max_width for link in ends if link.max_width]
    if not function.link.max_generation or not function.link.max_width:
        return None
    return min(generations), min(widths)


def _bench(snapshot: Snapshot, name: str) -> Iterator[str]:
    yield f"# Drafted from {_machine(snapshot)}."
    yield "# Check: to judge BIOS and boot too, add [bmc] (url, user, password, pin) and set service_tag, which pins the machine."
    yield "schema = 1"
    yield f"name = {_quoted(name)}"
    yield f"platform = {_quoted(name)}"
    yield 'service_tag = ""'
    yield ""
    yield "[host]"
    yield 'via = "local"'


def _platform(snapshot: Snapshot, name: str, places: Sequence[Place]) -> Iterator[str]:
    kinds = _kinds(snapshot, places)
    yield from _heading(snapshot, places)
    yield "schema = 1"
    yield f"name = {_quoted(name)}"
    if snapshot.host.machine:
        yield f"system = {_quoted(snapshot.host.machine)}"
    for kind in kinds:
        yield ""
        yield from _model(kind)
    yield from _gpu_tables(snapshot, kinds)
    models = {place.name: kind.name for kind in kinds for place in kind.places}
    for place in places:
        yield ""
        yield "[[slot]]"
        yield f"name = {_quoted(place.name)}"
        if place.hba:
            yield f"hba = {_quoted(place.hba)}"
        yield f"model = {_quoted(models[place.name])}"
        yield f"path = {_quoted(place.function.path)}"


def _heading(snapshot: Snapshot, places: Sequence[Place]) -> Iterator[str]:
    chosen = {place.function.bdf for place in places}
    left = [function for function in snapshot.functions if _is_device(function) and function.bdf not in chosen]
    yield f"# Drafted from {_machine(snapshot)}: {len(snapshot.functions)} PCI functions, {len(places)} of them in slots below."
    yield "# It says what was found, not what should be. Check each slot: delete those that may be empty, add those that are empty"
    yield "# now and must not be, and give them the names that stand on the machine."
    if left:
        yield "# Left out, as they sit directly on a host bridge and so are part of the board:"
        yield from (f"#   {function.path}  {function.id}  class {function.kind}" for function in left)
    for unread in snapshot.unread:
        yield f"# Not read: {_plain(str(unread))}"


def _model(kind: Kind) -> Iterator[str]:
    first = kind.first
    yield "[[model]]"
    yield f"name = {_quoted(kind.name)}"
    yield f'device = "{first.id}"'
    if _subsystem(first):
        yield f'subsystem = "{_subsystem(first)}"'
    yield f'class = "{first.kind}"'
    yield from _bars(kind)
    yield from _links(kind)
    if _is_nvidia_gpu(first):
        yield "# memory: not known before the driver is asked; add memory = { ecc_off = ..., ecc_on = ... }"
        if (ceiling := _ceiling(kind.link)) is not None:
            yield f"ceiling = {ceiling}                         # GB/s one way, raw, of that link"


def _bars(kind: Kind) -> Iterator[str]:
    """The memory BARs that all places agree on; the rest as comments."""
    sizes: dict[int, dict[int, list[str]]] = {}
    for place in kind.places:
        for bar in place.function.bars:
            if bar.index < 6 and bar.is_memory and bar.size:
                sizes.setdefault(bar.index, {}).setdefault(bar.size, []).append(place.name)
            if bar.index < 6 and bar.is_memory and not bar.assigned:
                yield f"# {place.name}: {bar}: it has no place in the address map now"
    agreed = {index: next(iter(found)) for index, found in sorted(sizes.items()) if len(found) == 1}
    for index, found in sorted(sizes.items()):
        present = [name for names in found.values() for name in names]
        absent = [place.name for place in kind.places if place.name not in present]
        if len(found) > 1:
            shown = ", ".join(f"{_size(size)} in {len(names)}" for size, names in sorted(found.items()))
            yield f"# BAR {index} is not the same everywhere ({shown}): say what it should be"
        if absent:
            yield f"# BAR {index} is missing in {', '.join(absent)}: a fault, unless you delete it here"
    if agreed:
        listed = ", ".join(f'{index} = "{_size(size)}"' for index, size in agreed.items())
        yield f"bars = {{ {listed} }}"


def _links(kind: Kind) -> Iterator[str]:
    if kind.link is None:
        known = sorted({f"generation {link[0]} x{link[1]}" for link in kind.links if link is not None})
        if known:
            yield f"# link: not the same in all places or not known in some ({', '.join(known)}); split the model to judge it"
        return
    generation, width = kind.link
    narrow = [place for place in kind.places if place.function.link.current_width not in (None, width)]
    for place in narrow:
        yield f"# {place.name} runs at x{place.function.link.current_width} now, although both ends can do x{width}"
    yield f"link = {{ generation = {generation}, width = {width} }}"


def _gpu_tables(snapshot: Snapshot, kinds: Sequence[Kind]) -> Iterator[str]:
    cards = [kind for kind in kinds if _is_nvidia_gpu(kind.first)]
    if not cards:
        yield ""
        yield "# No NVIDIA GPU was found: without a [gpu] table the stages gpu, p2p and resnet50 are not run."
        return
    modes = {snapshot.iommu(place.function) or "unknown" for kind in cards for place in kind.places}
    yield ""
    yield "[pcie]"
    if modes - {"off", "identity"}:
        yield f"# Found: {', '.join(sorted(modes))}. A translating IOMMU drops peer writes silently, so this fails as it stands."
    yield 'iommu = { one_of = ["off", "identity"] }'
    yield ""
    yield "[gpu]"
    yield "# Nothing here: uncorrected errors 0, pending retirements 0, at most 8 replays a minute."
    ceilings = [ceiling for kind in cards if (ceiling := _ceiling(kind.link)) is not None]
    if ceilings:
        yield ""
        yield "[p2p]"
        yield f'ceiling = {{ at_most = "{max(ceilings)} GB/s" }}     # no faster than the link: check it for NVLink bridges'


def _ceiling(link: tuple[int, int] | None) -> float | None:
    """GB/s one way: transfers times lanes, less the line code (PCI Express Base Specification: 8b/10b, from Gen3 128b/130b)."""
    if link is None or link[0] not in _ENCODING:
        return None
    generation, width = link
    return round((speed_of(generation) or 0.0) * width * _ENCODING[generation] / 8, 2)


def _machine(snapshot: Snapshot) -> str:
    host = snapshot.host
    return _plain(f"{host.machine or 'a machine that does not say what it is'} with Linux {host.kernel or 'of unknown release'}")


def _size(size: int) -> str:
    units: Mapping[str, int] = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}
    return next((f"{size // scale} {unit}" for unit, scale in units.items() if size % scale == 0), f"{size} B")


def _plain(text: str) -> str:
    """Text for a comment or a string: what a machine says of itself may hold anything."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _quoted(text: str) -> str:
    return json.dumps(_plain(text), ensure_ascii=False)
