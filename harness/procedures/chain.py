"""The chain from the cable to the last BAR, and for each missing part the first link of it that lost the part.

    expected ─ uplink ─ link ─ buses ─ enumerated ─ bars ─ aperture ─ (driver ─ NVML, added by later stages)
                 │       │       │         │          │        └ 64-bit space: the frame-buffer aperture has no place
                 │       │       │         │          └ a BAR has no place: in 32-bit space; of what is no GPU, in either
                 │       │       │         └ the link is up and numbered, and nothing answers
                 │       │       └ no bus number left behind the port
                 │       └ the port's link is down, or the port does not report it and nothing answers
                 └ the cable to the whole chassis

Pure: a snapshot and the platform in, a Chain out. Parts are found by their path through the tree, never by address: bus
numbers move from boot to boot. The final state in sysfs decides; the kernel log explains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from harness.devices.fabric import FabricPart
from harness.devices.pcie import Function, Snapshot
from harness.errors import Blocked
from harness.platform import DeviceModel, Platform, Slot, Uplink
from harness.procedures import chain_causes as causes
from harness.procedures.chain_causes import Finding


class ChainLink(StrEnum):
    """The links of the chain, in order. The value names the check of the pcie stage that judges it."""

    UPLINK = "uplink"
    LINK = "chain-link"
    BUSES = "buses"
    ENUMERATED = "enumerated"
    BARS = "bars"
    APERTURE = "aperture"


_COUNTED = {
    ChainLink.UPLINK: "uplinks up",
    ChainLink.LINK: "links up",
    ChainLink.BUSES: "buses assigned",
    ChainLink.ENUMERATED: "enumerated",
    ChainLink.BARS: "BARs assigned",
    ChainLink.APERTURE: "apertures assigned",
}
_READS = {
    ChainLink.UPLINK: "the uplink",
    ChainLink.LINK: "its link",
    ChainLink.BUSES: "the bus numbers",
    ChainLink.ENUMERATED: "enumeration",
    ChainLink.BARS: "its BARs",
    ChainLink.APERTURE: "its aperture",
}
_ORDER = tuple(ChainLink)

Place: TypeAlias = "Slot | Uplink | str"
"""A slot or an uplink, or the name of one."""


@dataclass(frozen=True)
class Loss:
    """Why a slot (or an uplink) has no usable part: the first link that lost it, and what was found there.

    ``place`` is the slot's or uplink's name, ``path`` the bridge or function where it was lost, ``serial`` the part's
    serial number where the fabric told it, ``lost`` which BARs have no place.
    """

    place: str
    link: ChainLink
    path: str
    evidence: str
    cause: str
    do: str
    serial: str = ""
    lost: str = ""

    @property
    def at(self) -> str:
        """The link in words, for BARs with the space that they should be in."""
        return self.lost if self.link is ChainLink.BARS and self.lost else _READS[self.link]


@dataclass(frozen=True)
class Chain:
    """What became of the expected slots.

    ``attached`` counts those that the fabric says this machine has, None without a fabric; ``beyond`` are further links
    that later stages added, as (name, slots that got so far).
    """

    slots: tuple[str, ...]
    losses: tuple[Loss, ...] = ()
    uplinks: tuple[Loss, ...] = ()
    attached: int | None = None
    beyond: tuple[tuple[str, int], ...] = ()

    def lost_at(self, slot: Place) -> Loss | None:
        """The first link that lost a slot, or None."""
        return next((loss for loss in self.losses if loss.place == str(slot)), None)

    def uplink_lost(self, uplink: Place) -> Loss | None:
        """What is wrong with an uplink, or None."""
        return next((loss for loss in self.uplinks if loss.place == str(uplink)), None)

    @property
    def present(self) -> tuple[str, ...]:
        """The slots that lost nothing."""
        return tuple(slot for slot in self.slots if self.lost_at(slot) is None)

    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many slots got past each link, in order: (what is counted, slots)."""
        counted = [("expected", len(self.slots))]
        if self.attached is not None:
            counted.append(("fabric says", self.attached))
        left = len(self.slots)
        for link in _ORDER:
            left -= sum(loss.link == link for loss in self.losses)
            counted.append((_COUNTED[link], left))
        return (*counted, *self.beyond)

    def then(self, name: str, slots: Collection[str]) -> Chain:
        """The chain with one link more, which ``slots`` got past."""
        return replace(self, beyond=(*self.beyond, (name, sum(slot in slots for slot in self.slots))))

    def holds(self, slot: Place, link: ChainLink) -> bool:
        """True where ``slot`` got past ``link``. Raises Blocked where an earlier link lost it already."""
        loss = self.lost_at(slot)
        if loss is None or _ORDER.index(loss.link) > _ORDER.index(link):
            return True
        if loss.link != link:
            raise Blocked(f"{slot} was lost before, at {loss.at}: {loss.evidence}")
        return False

    def explain(self, place: Place) -> str:
        """What a person needs to know about a loss, in a few lines; one line where nothing was lost."""
        loss = self.lost_at(place) or self.uplink_lost(place)
        if loss is None:
            return f"{place}: nothing is lost"
        same = [other for other in self.losses if (other.path, other.link) == (loss.path, loss.link) and other != loss]
        with_it = [other.place for other in same]
        lines = [
            f"{loss.place}{f' (serial {loss.serial})' if loss.serial else ''} is lost at {loss.at}",
            f"  chain   {' > '.join(f'{name} {count}' for name, count in self.counts())}",
            f"  where   {loss.path}",
            f"  seen    {loss.evidence}",
            f"  likely  {loss.cause}",
            f"  next    {loss.do}",
        ]
        if with_it:
            lines.insert(1, f"  with it {', '.join(with_it)}")
        return "\n".join(lines)


def trace(snapshot: Snapshot, platform: Platform, slots: Sequence[Slot], fabric: Sequence[FabricPart] | None = None) -> Chain:
    """Follow each of ``slots`` from the root to its last BAR. ``fabric`` adds serial numbers and the fabric's own count."""
    uplinks = {uplink.name: uplink for uplink in platform.uplinks}
    used = [uplink for name, uplink in uplinks.items() if any(slot.uplink == name for slot in slots)]
    losses = (_follow(snapshot, slot, uplinks.get(slot.uplink), platform.models_for(slot)) for slot in slots)
    serials = {part.slot: part.serial for part in fabric or ()}
    return Chain(
        slots=tuple(slot.name for slot in slots),
        losses=tuple(replace(loss, serial=serials.get(loss.place, "")) for loss in losses if loss is not None),
        uplinks=tuple(loss for uplink in used if (loss := _follow_uplink(snapshot, uplink)) is not None),
        attached=_attached(fabric or (), slots),
    )


def model_for(function: Function, models: Iterable[DeviceModel]) -> DeviceModel | None:
    """The model that a function is, by device and subsystem, else the first by device alone."""
    alike = [model for model in models if model.device == function.id]
    return next((model for model in alike if model.subsystem == function.subsystem), alike[0] if alike else None)


def aperture_index(function: Function) -> int | None:
    """The BAR through which others reach a GPU's frame buffer: the one behind BAR 0. None for what is no GPU.

    NVIDIA's GPUs up to Ada have a 32-bit BAR 0 and the aperture in BAR 1; from Hopper on BAR 0 has 64 bits and takes two
    registers, so it is BAR 2 (lspci of an H100 in leptonai/gpud).
    """
    if not function.is_gpu or function.vendor != "10de":
        return None
    return 2 if causes.is_wide(function, 0) else 1


def bars_expected(function: Function, model: DeviceModel | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which BARs must have a place: those in 32-bit space, and those in 64-bit space with the aperture.

    A GPU always needs BAR 0 and its aperture; the rest is what the model lists. Of other devices all that is listed counts
    as the first kind: they may sit in either space.
    """
    aperture = aperture_index(function)
    wanted = set() if model is None else set(model.bars)
    if aperture is None:
        return tuple(sorted(wanted)), ()
    wanted |= {0, aperture}
    wide = {index for index in wanted if index == aperture or causes.is_wide(function, index)}
    return tuple(sorted(wanted - wide)), tuple(sorted(wide))


def _follow(snapshot: Snapshot, slot: Slot, uplink: Uplink | None, models: Sequence[DeviceModel]) -> Loss | None:
    lost = _gap_at(snapshot, slot.path, "" if uplink is None else uplink.path)
    if lost is None:
        lost = _first_bar(snapshot, slot.path, models)
    if lost is None:
        return None
    link, path, finding = lost
    return Loss(slot.name, link, path, finding.evidence, finding.cause, finding.do, lost=finding.lost)


def _follow_uplink(snapshot: Snapshot, uplink: Uplink) -> Loss | None:
    """An uplink is up where its port has a link and the far end answers."""
    lost = _gap_at(snapshot, uplink.path, uplink.path)
    if lost is None:
        port = snapshot.at(uplink.path)
        far_ends = () if port is None else snapshot.children(port)
        if port is not None and all(far_end.is_gone for far_end in far_ends):
            lost = _behind(snapshot, port, is_uplink=True, gone=next(iter(far_ends), None))
    if lost is None or lost[0] != ChainLink.UPLINK:
        return None
    return Loss(uplink.name, lost[0], lost[1], lost[2].evidence, lost[2].cause, lost[2].do)


def _gap_at(snapshot: Snapshot, path: str, uplink: str) -> tuple[ChainLink, str, Finding] | None:
    """The first hop of a path that does not answer, judged by the bridge above it."""
    root, *hops = path.split("/")
    far_end = len(uplink.split("/")) if uplink else 0
    here, above = root, None
    for depth, hop in enumerate(hops, start=1):
        here = f"{here}/{hop}"
        function = snapshot.at(here)
        if function is None or function.is_gone:
            is_uplink = depth <= far_end
            if above is None:
                link = ChainLink.UPLINK if is_uplink else ChainLink.ENUMERATED
                return link, here, causes.no_port(here, function)
            return _behind(snapshot, above, is_uplink=is_uplink, gone=function)
        above = function
    return None


def _behind(snapshot: Snapshot, bridge: Function, *, is_uplink: bool, gone: Function | None) -> tuple[ChainLink, str, Finding]:
    """Why nothing answers behind a bridge that does."""
    left = None if gone is not None else causes.pulled(snapshot, bridge)
    if causes.link_is_down(bridge):
        link = ChainLink.UPLINK if is_uplink else ChainLink.LINK
        return link, bridge.path, left or causes.link_down(bridge, is_uplink=is_uplink)
    if causes.has_no_bus(snapshot, bridge):
        return ChainLink.BUSES, bridge.path, causes.no_bus(snapshot, bridge)
    if gone is not None:
        return ChainLink.UPLINK if is_uplink else ChainLink.ENUMERATED, gone.path, causes.fell_off(snapshot, gone)
    if causes.link_is_untold(bridge):
        return ChainLink.UPLINK if is_uplink else ChainLink.LINK, bridge.path, left or causes.link_untold(bridge)
    if is_uplink:
        return ChainLink.UPLINK, bridge.path, causes.came_late(bridge)
    return ChainLink.ENUMERATED, bridge.path, causes.no_answer(bridge)


def _first_bar(snapshot: Snapshot, path: str, models: Sequence[DeviceModel]) -> tuple[ChainLink, str, Finding] | None:
    """The first link with a BAR that has no place. Of several the aperture is told, or what the model says is the largest.

    Firmware that cannot place the largest gives the others no place either.
    """
    function = snapshot.at(path)
    if function is None:
        return None
    model = model_for(function, models)
    sizes = {} if model is None else model.bars
    aperture = aperture_index(function)
    narrow, wide = bars_expected(function, model)
    for link, indices in ((ChainLink.BARS, narrow), (ChainLink.APERTURE, wide)):
        without = [index for index in indices if (bar := function.bar(index)) is None or not bar.assigned]
        if without:
            told = min(without, key=lambda index: (index != aperture, -sizes.get(index, 0)))
            return link, path, causes.no_place(snapshot, function, told)
    return None


def _attached(fabric: Sequence[FabricPart], slots: Sequence[Slot]) -> int | None:
    """How many of the slots hold a part of the machine that has most of them; None where the fabric names no slots."""
    if not any(part.slot for part in fabric):
        return None
    names = {slot.name for slot in slots}
    owners = [part.owner for part in fabric if part.slot in names and part.owner]
    return max((owners.count(owner) for owner in set(owners)), default=0)
