"""What a slot's way through the tree must satisfy: links at both ends, access control, payload sizes, IOMMU, errors.

    root port ══ HBA up ─ HBA down ══ chassis up ─ chassis down ══ GPU        ══ a link with two ends   ─ inside a switch

Pure functions from a snapshot to values that a suite measures against the platform's limits. None, or an entry in ``unread``, is
what could not be read: never taken for zero.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.devices.pcie import Function, PortType, Snapshot, speed_of, strip_stamp
from harness.devices.pcie.registers import LEGACY_SIZE
from harness.platform import Slot

_LINK_ERRORS = ((0, "RxErr"), (6, "BadTLP"), (7, "BadDLLP"), (8, "Rollover"), (12, "Timeout"))
"""Bits of the correctable error status that a bad link sets (Linux drivers/pci/pcie/aer.c); the others tell of functions."""

_NOT_TRANSLATING = ("off", "identity")
_TROUBLE = re.compile(
    r"pciehp: Slot\([^)]*\): (?:Link Down(?!/Up ignored)|Card not present|No link|Cannot train link|Power fault)"
    r"|PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\)"
    r"|containment event|: device recovery failed|can't recover \(no error_detected"
    r"|(?:Unable to|can't) change power state from D3cold|Refused to change power state"
    r"|not ready \d+ms after .*; giving up",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class LinkEnds:
    """One PCIe link: the port above and the function below."""

    upper: Function
    lower: Function

    def __str__(self) -> str:
        return f"{self.upper.bdf} = {self.lower.bdf}"


@dataclass(frozen=True)
class AccessControl:
    """The bridges that a GPU's peer traffic passes on its way to the others: those that redirect, those that were not read."""

    bridges: tuple[Function, ...]
    redirecting: tuple[Function, ...]
    unread: tuple[Function, ...]


@dataclass(frozen=True)
class LinkErrors:
    """Corrected errors of a link that a function's status register holds, and what the kernel counted there.

    ``names`` are lspci's; ``counted`` is None where the kernel keeps no counters.
    """

    function: Function
    names: tuple[str, ...]
    counted: int | None

    def __str__(self) -> str:
        signs = " ".join(f"{name}+" for name in self.names)
        told = "the kernel keeps no count" if self.counted is None else f"the kernel counted {self.counted}"
        return f"{self.function.bdf} CESta {signs}, {told}"


def hops(snapshot: Snapshot, path: str) -> tuple[Function, ...]:
    """The functions on a path that are there, from the root port down."""
    steps = path.split("/")
    found = (snapshot.at("/".join(steps[:depth])) for depth in range(2, len(steps) + 1))
    return tuple(function for function in found if function is not None)


def links_to(snapshot: Snapshot, path: str) -> tuple[LinkEnds, ...]:
    """The links on a path, from the root down; what sits between two ports of one switch is no link.

    Where the port types were not read, every second step is taken for a link, as it is below any root port.
    """
    walk = hops(snapshot, path)
    links = []
    for depth, (upper, lower) in enumerate(pairwise(walk)):
        kind = _port_type(upper)
        leads_down = depth % 2 == 0 if kind is None else kind in (PortType.ROOT_PORT, PortType.DOWNSTREAM)
        if leads_down:
            links.append(LinkEnds(upper, lower))
    return tuple(links)


def uplink_links(snapshot: Snapshot, path: str) -> tuple[LinkEnds, ...]:
    """The links from the root to the far end of the uplink whose host-side port is at ``path``."""
    port = snapshot.at(path)
    far_ends = () if port is None else snapshot.children(port)
    return links_to(snapshot, far_ends[0].path if far_ends else path)


def width(function: Function) -> int | None:
    """Lanes in use at this end, by its registers, else as sysfs tells."""
    if function.is_gone:
        return None
    express = None if function.config is None else function.config.express
    return express.link.width if express is not None and express.link is not None else function.link.current_width


def generation(function: Function) -> int | None:
    """The PCIe generation at this end now; a GPU at rest idles down to 1."""
    if function.is_gone:
        return None
    express = None if function.config is None else function.config.express
    return express.link.generation if express is not None and express.link is not None else function.link.generation


def reachable_generation(link: LinkEnds) -> int | None:
    """The generation that a link may rise to under load: the least of what both ends can do and aim for. None where not read."""
    ends = []
    for function in (link.upper, link.lower):
        express = None if function.config is None or function.is_gone else function.config.express
        if express is None or express.link is None:
            return None
        ends.append(min(express.link.generation_most, express.link.target or express.link.generation_most))
    return min(ends)


def tightest(links: Sequence[LinkEnds]) -> LinkEnds | None:
    """The link that carries least of all on a way, the first from the root where several do; None where one was not read.

    By the lanes in use and the generation that the link may rise to, so that a GPU at rest is not called the bottleneck.
    """
    capacities = [_capacity(link) for link in links]
    known = [capacity for capacity in capacities if capacity is not None]
    if not links or len(known) < len(links):
        return None
    return links[known.index(min(known))]


def capacity_words(link: LinkEnds) -> str:
    """What a link can carry, in words: ``x8 generation 3``; "" where it was not read."""
    lanes, most = _lanes(link), reachable_generation(link)
    return "" if lanes is None or most is None else f"x{lanes} generation {most}"


def access_control(snapshot: Snapshot, slot: Slot, slots: Sequence[Slot]) -> AccessControl:
    """The bridges between a slot's GPU and those of the other ``slots``, on its own side of the bridge they share.

    A bridge redirects with ACS ReqRedir or CmpltRedir, or with egress control; SrcValid and UpstreamFwd do no harm (PEX890xx
    ports with both carry peer traffic at full speed). Bridges that no peer traffic passes are not looked at.
    """
    walk = [function for function in hops(snapshot, slot.path) if function.path != slot.path]
    others = [other.path for other in slots if other.name != slot.name]
    bridges = tuple(bridge for bridge in walk if any(not other.startswith(f"{bridge.path}/") for other in others))
    redirecting, unread = [], []
    for bridge in bridges:
        if _redirects(bridge):
            redirecting.append(bridge)
        elif is_express(bridge) is not False and not _is_whole(bridge):
            unread.append(bridge)
    return AccessControl(bridges, tuple(redirecting), tuple(unread))


def iommu_translating(snapshot: Snapshot, slots: Sequence[Slot]) -> tuple[str, ...]:
    """The names of the slots whose IOMMU domain translates: peer writes between such GPUs are dropped or go astray.

    Judged by the domain type of each GPU's group, not by the kernel's command line. A type that the kernel does not tell is
    taken for a translating one.
    """
    found = []
    for slot in slots:
        function = snapshot.at(slot.path)
        if function is not None and snapshot.iommu(function) not in _NOT_TRANSLATING:
            found.append(slot.name)
    return tuple(found)


def payloads(snapshot: Snapshot, slot: Slot) -> tuple[tuple[Function, int | None], ...]:
    """Max Payload Size in effect, in bytes, at each PCIe function on a slot's path; None where it was not read."""
    sizes: list[tuple[Function, int | None]] = []
    for function in hops(snapshot, slot.path):
        express = None if function.config is None else function.config.express
        if is_express(function) is not False:
            sizes.append((function, None if express is None else express.payload))
    return tuple(sizes)


def fatal_errors(snapshot: Snapshot, slot: Slot) -> tuple[tuple[Function, int], ...]:
    """The functions on a slot's path with fatal uncorrectable error bits that are set and not masked, with those bits."""
    found = []
    for function in hops(snapshot, slot.path):
        aer = None if function.config is None else function.config.aer
        if aer is not None and (bits := aer.fatal & ~aer.uncorrectable_mask):
            found.append((function, bits))
    return tuple(found)


def link_errors(snapshot: Snapshot, slot: Slot) -> tuple[LinkErrors, ...]:
    """The functions on a slot's path whose status register holds a corrected error of the link."""
    found = []
    for function in hops(snapshot, slot.path):
        aer = None if function.config is None else function.config.aer
        names = () if aer is None else tuple(name for bit, name in _LINK_ERRORS if aer.correctable >> bit & 1)
        if names:
            counted = None if function.aer is None else sum(function.aer.get("correctable", {}).values())
            found.append(LinkErrors(function, names, counted))
    return tuple(found)


def explain_link_errors(slot: Slot, errors: Sequence[LinkErrors]) -> str:
    """What a person needs to know about corrected errors on a slot's path."""
    seen = "; ".join(map(str, errors))
    lines = [
        f"links to {slot} had errors that were corrected",
        f"  seen    {seen}",
        "  likely  a connector, a cable or a retimer on that hop; a bit stands for one error or for thousands",
        "  next    clear the register, load the link and read it again; reseat the part, swap it with a good neighbour",
    ]
    if any(error.counted == 0 for error in errors):
        lines.insert(
            2, "  why     the kernel's counters stay at zero where firmware, or nobody, looks after the errors (_OSC, pci=noaer)"
        )
    return "\n".join(lines)


def fatal_counts(snapshot: Snapshot, slot: Slot) -> tuple[tuple[Function, Mapping[str, int]], ...]:
    """The functions on a slot's path of which the kernel counted fatal errors since it started, by their names.

    A kernel that handles errors itself clears the registers afterwards, and only its counters still know (Linux
    Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats).
    """
    counted = ((function, (function.aer or {}).get("fatal", {})) for function in hops(snapshot, slot.path))
    return tuple((function, counts) for function, counts in counted if any(counts.values()))


def errors_unread(snapshot: Snapshot, slot: Slot) -> tuple[Function, ...]:
    """The functions on a slot's path that may have error registers beyond what was read of them."""
    walk = hops(snapshot, slot.path)
    return tuple(function for function in walk if is_express(function) is not False and not _is_whole(function))


def is_express(function: Function) -> bool | None:
    """Whether a function speaks PCI Express; None where too little was read to tell. A conventional one has no error registers."""
    config = function.config
    if config is not None and config.express is not None:
        return True
    return None if config is None or config.gone or len(config.raw) < LEGACY_SIZE else False


def identity(function: Function) -> str:
    """What two parts of one kind have in common: ids, subsystem ids and class, e.g. ``10de:1e78 10de:13d8 0302``."""
    return " ".join(word for word in (function.id, function.subsystem, function.kind) if word)


def common_identity(snapshot: Snapshot, slots: Sequence[Slot], model: str) -> str:
    """The identity that most of the slots for ``model`` have; "" where none has a part."""
    parts = [function for slot in slots if slot.model == model and (function := snapshot.at(slot.path)) is not None]
    counted = Counter(identity(function) for function in parts)
    return counted.most_common(1)[0][0] if counted else ""


def trouble_lines(snapshot: Snapshot, slot: Slot) -> tuple[str, ...]:
    """Kernel log lines, without stamps, that tell of a failure at a function on a slot's path.

    Not among them: shortages of address space, which the final state decides, and corrected errors, which are judged by rate.
    """
    names = [function.bdf for function in hops(snapshot, slot.path)]
    lines = (line for line in snapshot.log.lines if any(name in line for name in names) and _TROUBLE.search(line))
    return tuple(strip_stamp(line) for line in lines)


def why_unread(snapshot: Snapshot, functions: Sequence[Function] = ()) -> str:
    """Why something could not be read, as the snapshot tells; ``functions`` are those it was wanted of."""
    wanted = {function.bdf for function in functions}
    own = [unread for unread in snapshot.unread if wanted & set(unread.of)]
    general = [unread for unread in snapshot.unread if not unread.of]
    return "; ".join(str(unread) for unread in own or general) or "it was not read, and the machine did not say why"


def _lanes(link: LinkEnds) -> int | None:
    lanes = (width(link.upper), width(link.lower))
    return None if lanes[0] is None or lanes[1] is None else min(lanes[0], lanes[1])


def _capacity(link: LinkEnds) -> float | None:
    """Lanes times speed, in GT/s. Generations 1 and 2 lose a fifth of it to their encoding (8b/10b)."""
    lanes, speed = _lanes(link), speed_of(reachable_generation(link) or 0)
    return None if lanes is None or speed is None else lanes * speed * (0.8 if speed < 8 else 1.0)


def _port_type(function: Function) -> PortType | None:
    express = None if function.config is None else function.config.express
    return None if express is None else express.type


def _is_whole(function: Function) -> bool:
    return function.config is not None and function.config.is_extended and not function.is_gone


def _redirects(bridge: Function) -> bool:
    acs = None if bridge.config is None else bridge.config.acs
    return acs is not None and (acs.redirects_requests or acs.redirects_completions or acs.controls_egress)
