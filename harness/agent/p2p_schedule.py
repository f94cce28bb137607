"""Which copies may run at once without lowering each other's rate, and in how few steps all of them are done.

    GPU ══╗ up                up ╔══ GPU      every line carries one copy each way (PCIe is full duplex), so a step holds
    GPU ──╨─ switch ── root ── switch ─╨─ GPU      at most one copy out of a GPU, one into it, one up and one down each uplink

    below one switch   the copies between n GPUs are n - 1 permutations (for the whole machine below one switch: the circle)
    across             one copy up and one down each uplink: as many steps as the busiest uplink has copies
    both               copies below a switch go beside those across, in the GPUs that these leave free
    unknown            one copy a step
    redirected         copies below a switch whose ports send them up (ACS) fill its uplink as well
    both ways          a pair of GPUs at once, so it takes the lines of both of its copies

Both parts are edge colourings of a bipartite graph (senders left, receivers right), which never take more colours than the
busiest node has edges (Koenig). The schedule of a machine with one level of switches is as short as its lines allow; with switches
behind switches each copy goes into the first step in which all its lines are free.
"""

from typing import AbstractSet, Dict, FrozenSet, Hashable, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

Copy = Tuple[int, int]
"""Source and target, by CUDA's index."""

Step = Tuple[Copy, ...]

Edge = Tuple[Hashable, Hashable]
Used = Tuple[Dict[Hashable, Dict[int, int]], Dict[Hashable, Dict[int, int]]]
"""By left end and by right end: which edge has which colour there."""


NOBODY: FrozenSet[int] = frozenset()


def schedule(
    uplinks: Mapping[int, Optional[Sequence[str]]],
    copies: Optional[Iterable[Copy]] = None,
    redirected: AbstractSet[int] = NOBODY,
) -> List[Step]:
    """The steps, in order. ``uplinks`` are the switches above each GPU from its own upwards, None where nobody knows.

    ``copies`` are those that are wanted, by default all ordered pairs; ``redirected`` the GPUs whose port sends copies upwards.
    """
    wanted = [(a, b) for a in sorted(uplinks) for b in sorted(uplinks) if a != b] if copies is None else list(copies)
    known: Dict[int, Sequence[str]] = {gpu: above for gpu, above in uplinks.items() if above is not None}
    if len(known) < len(uplinks):
        return serial(wanted)
    if all(len(above) <= 1 for above in known.values()):
        own = {gpu: above[0] if above else "GPU {}".format(gpu) for gpu, above in known.items()}
        return _flat(own, wanted, redirected)
    lines = {copy: lines_of(copy, known, redirected) for copy in wanted}
    return _frozen(_fit(sorted(wanted, key=lambda copy: -len(lines[copy])), [], lines))


def schedule_both(
    uplinks: Mapping[int, Optional[Sequence[str]]], pairs: Iterable[Copy], redirected: AbstractSet[int] = NOBODY
) -> List[Step]:
    """The steps in which each of ``pairs`` copies both ways at once.

    The circle method's order, first among the switches and then below each of them, lets the first step that fits be a good one.
    """
    wanted = list(pairs)
    known: Dict[int, Sequence[str]] = {gpu: above for gpu, above in uplinks.items() if above is not None}
    if len(known) < len(uplinks):
        return serial(wanted)
    own = {gpu: above[0] if above else "GPU {}".format(gpu) for gpu, above in known.items()}
    switches = list(dict.fromkeys(own.values()))
    places = {gpu: [other for other in own if own[other] == own[gpu]].index(gpu) for gpu in own}
    most = max(places.values()) + 1 if places else 0
    lines = {(a, b): lines_of((a, b), known, redirected) | lines_of((b, a), known, redirected) for a, b in wanted}

    def order(pair: Copy) -> Tuple[bool, int]:
        one, other = pair
        if own[one] == own[other]:
            return True, _round(places[one], places[other], most)
        return False, _round(switches.index(own[one]), switches.index(own[other]), len(switches))

    return _frozen(_fit(sorted(wanted, key=order), [], lines))


def _round(one: int, other: int, count: int) -> int:
    """The round of the circle method in which two of ``count`` meet."""
    even = count + count % 2
    last = even - 1
    if last in (one, other):
        return 2 * min(one, other) % last
    return (one + other) % last


def serial(copies: Iterable[Copy]) -> List[Step]:
    """One copy a step."""
    return [(copy,) for copy in copies]


def lines_of(copy: Copy, uplinks: Mapping[int, Sequence[str]], redirected: AbstractSet[int] = NOBODY) -> Set[Tuple[str, Hashable]]:
    """The one-way lines that a copy fills: out of its source, into its target, and every uplink that only one of them is behind.

    One of a redirected GPU turns at the root complex only, so it fills all the uplinks above its two ends.
    """
    source, target = copy
    turned = not redirected.isdisjoint(copy)
    lines: Set[Tuple[str, Hashable]] = {("out of", source), ("into", target)}
    lines.update(("up", switch) for switch in uplinks[source] if turned or switch not in uplinks[target])
    lines.update(("down", switch) for switch in uplinks[target] if turned or switch not in uplinks[source])
    return lines


def colour(edges: Sequence[Edge]) -> List[int]:
    """A colour for each edge, so that edges which share a left or a right end differ: as few colours as the busiest end has edges.

    Where the two ends of an edge have no free colour in common, two colours are swapped along the chain that is in the way.
    """
    found = [-1] * len(edges)
    used: Used = ({}, {})
    for edge, (left, right) in enumerate(edges):
        mine = _free(used[0].setdefault(left, {}))
        other = _free(used[1].setdefault(right, {}))
        if mine != other:
            _swap(edges, used, found, _chain(edges, used, right, (mine, other)), (mine, other))
        found[edge] = mine
        used[0][left][mine] = used[1][right][mine] = edge
    return found


def _chain(edges: Sequence[Edge], used: Used, node: Hashable, colours: Tuple[int, int]) -> List[int]:
    """The edges of two colours in turn, from a right end on. It never reaches the left end that lacks the first of them."""
    chain: List[int] = []
    side = 1
    edge = used[side][node].get(colours[0])
    while edge is not None:
        chain.append(edge)
        side = 1 - side
        edge = used[side][edges[edge][side]].get(colours[len(chain) % 2])
    return chain


def _swap(edges: Sequence[Edge], used: Used, found: List[int], chain: Sequence[int], colours: Tuple[int, int]) -> None:
    for edge in chain:
        for side in (0, 1):
            used[side][edges[edge][side]].pop(found[edge], None)
    for edge in chain:
        found[edge] = colours[0] if found[edge] == colours[1] else colours[1]
        for side in (0, 1):
            used[side][edges[edge][side]][found[edge]] = edge


def _free(taken: Mapping[int, int]) -> int:
    number = 0
    while number in taken:
        number += 1
    return number


def _flat(own: Mapping[int, str], wanted: Sequence[Copy], redirected: AbstractSet[int]) -> List[Step]:
    across = [copy for copy in wanted if own[copy[0]] != own[copy[1]] or not redirected.isdisjoint(copy)]
    crossing = set(across)
    below = [copy for copy in wanted if copy not in crossing]
    uplinks = {gpu: (switch,) for gpu, switch in own.items()}
    lines = {copy: lines_of(copy, uplinks, redirected) for copy in wanted}
    steps = _coloured(across, [(own[source], own[target]) for source, target in across])
    inner = _coloured(below, below)
    if not steps:
        return _frozen(inner)
    return _frozen(_fit([copy for step in inner for copy in step], steps, lines))


def _coloured(copies: Sequence[Copy], edges: Sequence[Edge]) -> List[List[Copy]]:
    colours = colour(edges)
    steps: List[List[Copy]] = [[] for _ in range(max(colours) + 1 if colours else 0)]
    for place, copy in enumerate(copies):
        steps[colours[place]].append(copy)
    return steps


def _fit(copies: Iterable[Copy], steps: List[List[Copy]], lines: Mapping[Copy, Set[Tuple[str, Hashable]]]) -> List[List[Copy]]:
    """Put each copy into the first of ``steps`` that leaves all its lines free; a new one where there is none."""
    busy: List[Set[Tuple[str, Hashable]]] = [{line for copy in step for line in lines[copy]} for step in steps]
    for copy in copies:
        number = next((number for number, taken in enumerate(busy) if not taken & lines[copy]), len(steps))
        if number == len(steps):
            steps.append([])
            busy.append(set())
        steps[number].append(copy)
        busy[number] |= lines[copy]
    return steps


def _frozen(steps: Iterable[Sequence[Copy]]) -> List[Step]:
    return [tuple(sorted(step)) for step in steps if step]
