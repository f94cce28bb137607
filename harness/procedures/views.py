"""Who sits in a slot, asked of everybody who knows: the fabric, the operating system, the driver, the BMC.

    fabric   slot, serial, owner        the controller's own list; also of the neighbours' parts
    system   serial number capability   only where the card has one, and writes the same number as the fabric
    driver   serial                     what NVML reads from the card
    BMC      recorded, never judged     iDRAC lists what it could identify, often without a serial

A difference names the view that stands alone. The dangerous one is a part that the fabric has given to another machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.devices.fabric import FabricPart
from harness.devices.pcie import Function, Snapshot
from harness.platform import Slot


@dataclass(frozen=True)
class Views:
    """One slot as each view sees it: serial numbers, "" where the view does not know. ``owner`` is the machine by the fabric."""

    slot: str
    fabric: str = ""
    system: str = ""
    driver: str = ""
    owner: str = ""

    @property
    def serials(self) -> Mapping[str, str]:
        """What each view that knows says."""
        named = {"fabric": self.fabric, "system": self.system, "driver": self.driver}
        return {view: serial for view, serial in named.items() if serial}

    def __str__(self) -> str:
        return ", ".join(f"{view} {serial}" for view, serial in self.serials.items()) or "no view knows a serial number"


def views(
    snapshot: Snapshot, slots: Sequence[Slot], fabric: Sequence[FabricPart], driver: Mapping[str, str] | None = None
) -> tuple[Views, ...]:
    """What each view says of each slot. ``driver`` maps slot names to the serial numbers that the driver reads.

    The serial number capability is a view only where it speaks the fabric's language: where at least one of the numbers in
    these slots is known to the fabric. A controller that names no slots is joined by serial number.
    """
    by_slot = {part.slot: part for part in fabric if part.slot}
    by_serial = {part.serial: part for part in fabric if part.serial}
    read = {slot.name: serial_of(function) for slot in slots if (function := snapshot.at(slot.path)) is not None}
    comparable = any(serial in by_serial for serial in read.values())
    seen = []
    for slot in slots:
        system = read.get(slot.name, "") if comparable else ""
        own = (driver or {}).get(slot.name, "")
        part = by_slot.get(slot.name) if by_slot else by_serial.get(system or own)
        listed = part or FabricPart("", "")
        seen.append(Views(slot.name, listed.serial, system, own, listed.owner))
    return tuple(seen)


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


def _differences(seen: Views, fabric: Sequence[FabricPart], machine: str) -> Iterator[str]:
    if not seen.fabric:
        yield f"{seen.slot}: the fabric knows no part there ({seen})"
    elif seen.owner != machine:
        whose = f"to {seen.owner}" if seen.owner else "to nobody"
        yield (
            f"{seen.slot}: the fabric has given the part with serial {seen.fabric} {whose}, not to {machine or 'this machine'}: "
            "a neighbour's part is attached here; do not load it, and have the fabric detach it"
        )
    holders = {part.serial: part for part in fabric if part.serial}
    for view in _odd(seen):
        holder = holders.get(seen.serials[view])
        place = "" if holder is None else f"; by the fabric it sits in {holder.slot or 'no slot'} of {holder.owner or 'nobody'}"
        yield f"{seen.slot}: the {view}'s view differs: {seen}{place}"


def _odd(seen: Views) -> tuple[str, ...]:
    """The views that most others contradict; where every view says something else, the fabric's is taken for the reference."""
    if len(set(seen.serials.values())) < 2:
        return ()
    serial, votes = Counter(seen.serials.values()).most_common(1)[0]
    reference = serial if votes > 1 else seen.fabric
    return tuple(view for view, serial in seen.serials.items() if serial != reference)
