"""Who sits in a slot, asked of everybody who knows: the fabric, the BMC, the operating system, the driver.

    fabric   slot, serial, owner        the controller's own list; also of the neighbours' parts
    BMC      serial, bus address        what iDRAC lists; of GPUs behind an external chassis it may show some, none, or no serial
    system   serial number capability   only where the card has one, and writes the same number as the fabric
    driver   serial                     what NVML reads from the card; in the gpu stage only

A view sees the part of a slot, or is missing it, or was not measured: its list has none of these parts, or cannot be read. What was
not measured is no zero and fails nothing. A difference names the view that lost the part, or that stands alone, with slot and
serial number. The dangerous one is a part that the fabric has given to another machine.

The driver comes later on purpose: to read a serial number NVML opens the GPU, and nothing may open one before the others agree that
it is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.devices.fabric import FabricPart
from harness.devices.gpu import Gpu
from harness.devices.idrac_pcie import BmcDevice, BmcInventory
from harness.devices.pcie import Function, Snapshot
from harness.platform import Slot
from harness.procedures.finding import Finding, taken

_TELLING = 0.5
"""The share of these parts that a BMC must list before one that it does not list is called missing. Ours: no public capture of an
iDRAC shows what it lists behind an external chassis, and slot-based names may well leave it with the first part only."""


class View(StrEnum):
    """Those who know who sits where."""

    FABRIC = "fabric"
    BMC = "BMC"
    SYSTEM = "system"
    DRIVER = "driver"


class Sees(StrEnum):
    """What a view says of one slot."""

    PART = "sees it"
    NOTHING = "is missing it"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class Sight:
    """One slot by one view: ``serial`` is "" where the view tells none, ``why`` says why not."""

    sees: Sees
    serial: str = ""
    why: str = ""

    def __str__(self) -> str:
        if self.serial:
            return self.serial
        return f"{self.sees}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True)
class Views:
    """One slot as each view sees it. ``owner`` is the machine by the fabric, "" for nobody."""

    slot: str
    sights: Mapping[View, Sight] = field(default_factory=dict, hash=False)
    owner: str = ""

    @property
    def serials(self) -> Mapping[View, str]:
        """The serial number by each view that tells one."""
        return {view: sight.serial for view, sight in self.sights.items() if sight.serial}

    def that(self, sees: Sees) -> tuple[View, ...]:
        """The views that say so."""
        return tuple(view for view, sight in self.sights.items() if sight.sees is sees)

    def __str__(self) -> str:
        return ", ".join(f"{view} {sight}" for view, sight in self.sights.items()) or "nobody was asked"


def views(
    snapshot: Snapshot,
    slots: Sequence[Slot],
    fabric: Sequence[FabricPart],
    bmc: BmcInventory | None = None,
    driver: Mapping[str, Gpu] | None = None,
) -> tuple[Views, ...]:
    """What each view says of each slot; of the BMC and of the driver (the GPU in each slot, by name) where they were asked.

    A serial number counts only where its view speaks the fabric's language: where at least one of the numbers in these slots is
    known to the fabric. A controller that names no slots is joined by serial number.
    """
    known = {part.serial for part in fabric if part.serial}
    told = {View.SYSTEM: _system_sights(snapshot, slots)}
    if bmc is not None:
        placed = {part.slot: part.serial for part in fabric if part.slot}
        told[View.BMC] = _bmc_sights(snapshot, slots, bmc, placed)
    if driver is not None:
        told[View.DRIVER] = _driver_sights(slots, driver)
    told = {view: _comparable(sights, known) for view, sights in told.items()}
    parts = _fabric_parts(slots, fabric, told)
    return tuple(
        Views(
            slot.name,
            {View.FABRIC: _fabric_sight(parts.get(slot.name)), **{view: sights[slot.name] for view, sights in told.items()}},
            parts[slot.name].owner if slot.name in parts else "",
        )
        for slot in slots
    )


def is_joined(seen: Views, fabric: Sequence[FabricPart]) -> bool:
    """Whether a slot and the fabric's list can be compared at all: by the slot's name, or by a serial number."""
    return any(part.slot for part in fabric) or bool(seen.serials)


def serial_of(function: Function) -> str:
    """A card's serial number capability as a plain number, without dashes and leading zeros; "" where it has none."""
    serial = "" if function.config is None else function.config.serial
    return serial.replace("-", "").lstrip("0")


def machine_of(fabric: Sequence[FabricPart], slots: Sequence[Slot], named: str = "") -> str:
    """The name that the fabric gives this machine: as the bench says, else the owner of most of its slots."""
    names = {slot.name for slot in slots}
    owners = Counter(part.owner for part in fabric if part.slot in names and part.owner)
    return named or (owners.most_common(1)[0][0] if owners else "")


def differences(seen: Views, fabric: Sequence[FabricPart], machine: str) -> tuple[str, ...]:
    """What is wrong with a slot's views, one line each; nothing where they agree."""
    return tuple(_differences(seen, fabric, machine))


def judge_views(stage: str, slot: Slot, seen: Sequence[Views], fabric: Sequence[FabricPart], machine: str) -> Finding:
    """Do those who know who sits in a slot say the same? What a view did not measure is listed, and fails nothing.

    ``seen`` are the views of all slots: the first that fails closes the stage, so it names the others too. The measurements are
    named after ``stage``; their values are serial numbers, or what the view says instead.
    """
    own = next(view for view in seen if view.slot == slot.name)
    if not is_joined(own, fabric):
        return Finding(unmeasured="the fabric names no slots and the card shows no serial number: nothing joins the two lists")
    listed = [taken(f"{stage}.view.{view.lower()}", str(sight), own.slot) for view, sight in own.sights.items()]
    owner = taken(f"{stage}.owner", own.owner or "nobody", own.slot)
    wrong = differences(own, fabric, machine)
    others = [view.slot for view in seen if view is not own and differences(view, fabric, machine)] if wrong else []
    also = (f"the views of {len(others)} more differ: {', '.join(others)}",) if others else ()
    return Finding((*listed, owner), "\n".join((*wrong, *also)))


def _system_sights(snapshot: Snapshot, slots: Sequence[Slot]) -> dict[str, Sight]:
    sights = {}
    for slot in slots:
        function = snapshot.at(slot.path)
        if function is None or function.is_gone:
            sights[slot.name] = Sight(Sees.NOTHING)
        else:
            serial = serial_of(function)
            sights[slot.name] = Sight(Sees.PART, serial, "" if serial else "the card has no serial number capability")
    return sights


def _bmc_sights(snapshot: Snapshot, slots: Sequence[Slot], bmc: BmcInventory, placed: Mapping[str, str]) -> dict[str, Sight]:
    """By the serial number that the slot should have, else by the bus address that it has now.

    Addresses alone prove no exchange: the list was made at POST, and bus numbers may have moved since. A list with few or none of
    these parts proves nothing of the others.
    """
    if bmc.unread:
        return dict.fromkeys((slot.name for slot in slots), Sight(Sees.UNMEASURED, why=bmc.unread))
    listed = {device.serial: device for device in bmc.devices if device.serial}
    functions = {slot.name: snapshot.at(slot.path) for slot in slots}
    found: dict[str, BmcDevice] = {}
    for name, function in functions.items():
        device = listed.get(placed.get(name, "")) or (None if function is None else bmc.at(function.bdf))
        if device is not None:
            found[name] = device
    there = sum(function is not None for function in functions.values())
    count = f"it lists {len(found) or 'none'} of these {there} parts"
    made = f", as of {bmc.collected}" if bmc.collected else ""
    absent = Sight(Sees.NOTHING if len(found) > _TELLING * there else Sees.UNMEASURED, why=count + made)
    sights = {}
    for slot in slots:
        device = found.get(slot.name)
        untold = "" if device is None or device.serial else "it tells no serial number"
        sights[slot.name] = absent if device is None else Sight(Sees.PART, device.serial, untold)
    return sights


def _driver_sights(slots: Sequence[Slot], driver: Mapping[str, Gpu]) -> dict[str, Sight]:
    sights = {}
    for slot in slots:
        gpu = driver.get(slot.name)
        if gpu is None:
            sights[slot.name] = Sight(Sees.NOTHING)
        elif gpu.error:
            sights[slot.name] = Sight(Sees.NOTHING, why=gpu.error)
        else:
            sights[slot.name] = Sight(Sees.PART, gpu.serial, "" if gpu.serial else f"serial number: {gpu.why_unread('serial')}")
    return sights


def _comparable(sights: Mapping[str, Sight], known: set[str]) -> dict[str, Sight]:
    """The sights as they are, without their serial numbers where not one of them is a number that the fabric knows."""
    if any(sight.serial in known for sight in sights.values()):
        return dict(sights)
    return {
        slot: Sight(sight.sees, why="its numbers are not the fabric's") if sight.serial else sight for slot, sight in sights.items()
    }


def _fabric_parts(
    slots: Sequence[Slot], fabric: Sequence[FabricPart], told: Mapping[View, Mapping[str, Sight]]
) -> dict[str, FabricPart]:
    """The fabric's part for each slot: by its name, else by the serial number that another view tells."""
    by_slot = {part.slot: part for part in fabric if part.slot}
    if by_slot:
        return {slot.name: by_slot[slot.name] for slot in slots if slot.name in by_slot}
    by_serial = {part.serial: part for part in fabric if part.serial}
    found = {}
    for slot in slots:
        serials = (sights[slot.name].serial for sights in told.values())
        if part := next((by_serial[serial] for serial in serials if serial in by_serial), None):
            found[slot.name] = part
    return found


def _fabric_sight(part: FabricPart | None) -> Sight:
    if part is None:
        return Sight(Sees.NOTHING)
    return Sight(Sees.PART, part.serial, "" if part.serial else "it tells no serial number")


def _differences(seen: Views, fabric: Sequence[FabricPart], machine: str) -> Iterator[str]:
    yield from _losses(seen)
    if View.FABRIC not in seen.that(Sees.NOTHING) and seen.owner != machine:
        whose = f"to {seen.owner}" if seen.owner else "to nobody"
        serial = seen.sights[View.FABRIC].serial
        yield (
            f"{seen.slot}: the fabric has given the part with serial {serial or 'unknown'} {whose}, not to "
            f"{machine or 'this machine'}: a neighbour's part is attached here; do not load it, and have the fabric detach it"
        )
    holders = {part.serial: part for part in fabric if part.serial}
    for view in _odd(seen):
        holder = holders.get(seen.serials[view])
        place = "" if holder is None else f"; by the fabric it sits in {holder.slot or 'no slot'} of {holder.owner or 'nobody'}"
        yield f"{seen.slot}: the {view}'s view differs: {seen}{place}"


def _losses(seen: Views) -> Iterator[str]:
    """The views that are missing a part which another one sees."""
    if not seen.that(Sees.PART):
        return
    serial = next(iter(seen.serials.values()), "")
    part = f"the part{f' with serial {serial}' if serial else ''}"
    for view in seen.that(Sees.NOTHING):
        if view is View.FABRIC:
            yield f"{seen.slot}: the fabric knows no part there ({seen})"
        else:
            yield f"{seen.slot}: the {view}'s view has lost {part}: {seen}"


def _odd(seen: Views) -> tuple[View, ...]:
    """The views that most others contradict; where every view says something else, the fabric's is taken for the reference."""
    serials = seen.serials
    if len(set(serials.values())) < 2:
        return ()
    serial, votes = Counter(serials.values()).most_common(1)[0]
    reference = serial if votes > 1 else serials.get(View.FABRIC, serial)
    return tuple(view for view, own in serials.items() if own != reference)
