"""Which chassis slot hangs from which downstream port: the fabric's list joined with the tree, by serial number.

    fabric   slot, serial, owner             ┐
    system   path, serial number capability  ├─ one serial number ─▶ Place: slot, serial, port, path
    driver   address, serial                 ┘   (asked only where the tree's serial numbers are not the fabric's)

A part that only one side knows is never guessed into a place; it is told as unseen or as a stranger.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.devices.fabric import FabricPart
from harness.devices.pcie import Function, Snapshot
from harness.platform import Platform, Slot
from harness.procedures.views import serial_of


@dataclass(frozen=True)
class Place:
    """A part in its place: ``path`` is the walk to it, ``port`` the walk to the downstream port it hangs from.

    ``hba`` is the kernel's name of the physical slot at the root port, "" where it has none.
    """

    slot: str
    serial: str
    model: str
    path: str
    port: str
    hba: str = ""

    @property
    def chassis(self) -> str:
        """The chassis by its name, "" where the slot's name has none."""
        return self.slot.rpartition("/")[0]


@dataclass(frozen=True)
class SlotMap:
    """What was learned for ``machine``, sorted by slot.

    ``unseen`` are parts that the fabric has given to it and the system does not show, ``strangers`` GPUs that it shows and the
    fabric has not given to it, ``doubts`` what makes the map unfit to be used as it is.
    """

    machine: str
    places: tuple[Place, ...]
    unseen: tuple[FabricPart, ...]
    strangers: tuple[Function, ...]
    doubts: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every part of the machine has its place and nothing speaks against the map."""
        return bool(self.places) and not (self.unseen or self.strangers or self.doubts)


def owner_in(fabric: Sequence[FabricPart], snapshot: Snapshot, driver: Mapping[str, str], named: str = "") -> str:
    """The name that the fabric gives this machine: as the bench says, else the owner of most parts that the system shows."""
    shown = _by_serial(snapshot, driver)
    owners = Counter(part.owner for part in fabric if part.owner and part.serial in shown)
    return named or (owners.most_common(1)[0][0] if owners else "")


def learn(fabric: Sequence[FabricPart], snapshot: Snapshot, driver: Mapping[str, str], machine: str) -> SlotMap:
    """Join the fabric's list with the tree. ``driver`` maps addresses (``0000:3f:00.0``) to the serial numbers the driver reads."""
    shown = _by_serial(snapshot, driver)
    ours = [part for part in fabric if machine and part.owner == machine]
    places = [_place(part, shown[part.serial], snapshot) for part in ours if part.serial in shown]
    mapped = {place.path for place in places}
    return SlotMap(
        machine,
        tuple(sorted(places, key=lambda place: (place.slot, place.path))),
        tuple(part for part in ours if part.serial not in shown),
        tuple(function for function in _cards(fabric, snapshot) if function.path not in mapped),
        tuple(_doubts(fabric, ours, places, machine)),
    )


def needs_the_driver(fabric: Sequence[FabricPart], snapshot: Snapshot) -> bool:
    """Whether the tree's own serial numbers leave GPUs that the fabric's list does not explain."""
    known = {part.serial for part in fabric}
    return any(serial_of(function) not in known for function in _cards(fabric, snapshot))


def contradictions(learned: SlotMap, platform: Platform) -> tuple[str, ...]:
    """Where the platform file says something else than what was learned, one line each."""
    return tuple(_contradictions(learned, platform))


def as_toml(learned: SlotMap, platform: Platform, source: str) -> Iterator[str]:
    """The piece of a platform file, and as comments that of a bench file, to be reviewed. ``source`` says what was asked."""
    yield f"# Learned from {source}."
    yield "# The fabric's list was joined with the PCIe tree by serial number."
    yield "# Review it, then put the tables into the platform file. A path survives renumbering; a serial number is only a comment."
    for chassis, path in _uplinks(learned).items():
        yield ""
        yield "[[uplink]]"
        yield f"name = {json.dumps(chassis)}"
        yield f'path = "{path}"'
        yield "link = { generation = 3, width = 16 }      # check: what the cable must do"
    for place in learned.places:
        yield ""
        yield "[[slot]]"
        yield f"name = {json.dumps(place.slot)}"
        if place.chassis:
            yield f"uplink = {json.dumps(place.chassis)}"
        if hba := hba_of(place, platform):
            yield f"hba = {json.dumps(hba)}"
        yield f'path = "{place.path}"'
        yield f"# serial {_plain(place.serial)}, {_plain(place.model) or 'model not told'}"
    yield ""
    yield "# For the bench file:"
    yield f"# populated = {json.dumps([place.slot for place in learned.places])}"


def hba_of(place: Place, platform: Platform) -> str:
    """The slot of the server: as the platform names what hangs from the same host bridge, else as the kernel does; "" unknown."""
    root = place.path.split("/")[0]
    return next((slot.hba for slot in platform.slots if slot.hba and slot.path.startswith(f"{root}/")), place.hba)


def _cards(fabric: Sequence[FabricPart], snapshot: Snapshot) -> tuple[Function, ...]:
    """The GPUs of the vendors that the fabric has parts of: not the one of the server's management controller."""
    vendors = {part.vendor for part in fabric if part.vendor}
    return tuple(function for function in snapshot.gpus if not vendors or function.vendor in vendors)


def _by_serial(snapshot: Snapshot, driver: Mapping[str, str]) -> dict[str, Function]:
    """The GPUs that the system shows, by each serial number that is known of them."""
    shown: dict[str, Function] = {}
    for function in snapshot.gpus:
        for serial in (serial_of(function), driver.get(function.bdf, "")):
            if serial:
                shown[serial] = function
    return shown


def _place(part: FabricPart, function: Function, snapshot: Snapshot) -> Place:
    above = snapshot.chain_up(function)[1:]
    slots = (snapshot.slot_of(bridge) for bridge in reversed(above))
    hba = next((slot.name for slot in slots if slot is not None), "")
    named = f"PCIe Slot {hba}" if hba.isdigit() else hba
    return Place(part.place, part.serial, part.model, function.path, function.path.rpartition("/")[0], named)


def _doubts(fabric: Sequence[FabricPart], ours: Sequence[FabricPart], places: Sequence[Place], machine: str) -> Iterator[str]:
    if not machine:
        owners = sorted({part.owner for part in fabric if part.owner})
        yield f"the fabric's name for this machine is not known; it has given parts to {', '.join(owners) or 'nobody'}"
    elif not ours:
        yield f"the fabric has given no part to {machine}"
    for serial, count in Counter(part.serial for part in fabric if part.serial).items():
        if count > 1:
            yield f"the fabric lists serial {_plain(serial)} {count} times"
    for slot, count in Counter(place.slot for place in places).items():
        if not slot:
            yield f"the fabric does not say where {count} part{'s sit' if count > 1 else ' sits'}"
        elif count > 1:
            yield f"the fabric names {_plain(slot)} for {count} parts"


def _contradictions(learned: SlotMap, platform: Platform) -> Iterator[str]:
    by_name: Mapping[str, Slot] = {slot.name: slot for slot in platform.slots}
    by_path: Mapping[str, Slot] = {slot.path: slot for slot in platform.slots}
    for place in learned.places:
        declared, there = by_name.get(place.slot), by_path.get(place.path)
        if declared is None:
            yield f"{_plain(place.slot)}: the platform has no such slot; the part is at {place.path}"
        elif declared.path != place.path:
            instead = f", which is {there.name} there" if there is not None else ""
            yield f"{_plain(place.slot)}: the platform has it at {declared.path}, the part is at {place.path}{instead}"


def _uplinks(learned: SlotMap) -> dict[str, str]:
    """The port at the host's end of each chassis' cable: two bridges above the ports, where all of a chassis agree on it."""
    uplinks: dict[str, str] = {}
    for chassis in dict.fromkeys(place.chassis for place in learned.places if place.chassis):
        cables = {"/".join(place.port.split("/")[:-2]) for place in learned.places if place.chassis == chassis}
        if len(cables) == 1 and (cable := cables.pop()).count("/"):
            uplinks[chassis] = cable
    return uplinks


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
