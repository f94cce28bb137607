"""Which copies may run at once without lowering each other's rate, and in how few steps all of them are done.

    GPU ══╗ up                up ╔══ GPU      every line carries one copy each way (PCIe is full duplex), so a step holds
    GPU ──╨─ switch ── root ── switch ─╨─ GPU      at most one copy out of a GPU, one into it, one up and one down each uplink

    below one switch   the copies between n GPUs are n - 1 permutations (for the whole machine below one switch: the circle)
    across             one copy up and one down each uplink: as many steps as the busiest uplink has copies
    both               copies below a switch go beside those across, in the GPUs that these leave free
    unknown            one copy a step

Both parts are edge colourings of a bipartite graph (senders left, receivers right), which never take more colours than the
busiest node has edges (Koenig). The schedule of a machine with one level of switches is as short as its lines allow; with switches
behind switches each copy goes into the first step in which all its lines are free.
"""

from typing import Dict, Hashable, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

Copy = Tuple[int, int]
"""Source and target, by CUDA's index."""

Step = Tuple[Copy, ...]

Edge = Tuple[Hashable, Hashable]
Used = Tuple[Dict[Hashable, Dict[int, int]], Dict[Hashable, Dict[int, int]]]
"""By left end and by right end: which edge has which colour there."""


def schedule(uplinks: Mapping[int, Optional[Sequence[str]]], copies: Optional[Iterable[Copy]] = None) -> List[Step]:
    """The steps, in order. ``uplinks`` are the switches above each GPU from its own upwards, None where nobody knows.

    ``copies`` are those that are wanted, by default all ordered pairs.
    """
    wanted = [(a, b) for a in sorted(uplinks) for b in sorted(uplinks) if a != b] if copies is None else list(copies)
    known: Dict[int, Sequence[str]] = {gpu: above for gpu, above in uplinks.items() if above is not None}
    if len(known) < len(uplinks):
        return serial(wanted)
    if all(len(above) <= 1 for above in known.values()):
        own = {gpu: above[0] if above else "GPU {}".format(gpu) for gpu, above in known.items()}
        return _flat(own, wanted)
    steps: List[List[Copy]] = []
    _fit(sorted(wanted, key=lambda copy: -len(lines_of(copy, known))), steps, known)
    return _frozen(steps)


def serial(copies: Iterable[Copy]) -> List[Step]:
    """One copy a step."""
    return [(copy,) for copy in copies]


def lines_of(copy: Copy, uplinks: Mapping[int, Sequence[str]]) -> Set[Tuple[str, Hashable]]:
    """The one-way lines that a copy fills: out of its source, into its target, and every uplink that only one of them is behind."""
    source, target = copy
    lines: Set[Tuple[str, Hashable]] = {("out of", source), ("into", target)}
    lines.update(("up", switch) for switch in uplinks[source] if switch not in uplinks[target])
    lines.update(("down", switch) for switch in uplinks[target] if switch not in uplinks[source])
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


def _flat(own: Mapping[int, str], wanted: Sequence[Copy]) -> List[Step]:
    across = [copy for copy in wanted if own[copy[0]] != own[copy[1]]]
    below = [copy for copy in wanted if own[copy[0]] == own[copy[1]]]
    steps = _coloured(across, [(own[source], own[target]) for source, target in across])
    inner = _coloured(below, below)
    if not steps:
        return _frozen(inner)
    uplinks = {gpu: (switch,) for gpu, switch in own.items()}
    _fit([copy for step in inner for copy in step], steps, uplinks)
    return _frozen(steps)


def _coloured(copies: Sequence[Copy], edges: Sequence[Edge]) -> List[List[Copy]]:
    colours = colour(edges)
    steps: List[List[Copy]] = [[] for _ in range(max(colours) + 1 if colours else 0)]
    for place, copy in enumerate(copies):
        steps[colours[place]].append(copy)
    return steps


def _fit(copies: Iterable[Copy], steps: List[List[Copy]], uplinks: Mapping[int, Sequence[str]]) -> None:
    """Put each copy into the first step that leaves all its lines free; a new one where there is none."""
    busy: List[Set[Tuple[str, Hashable]]] = [{line for copy in step for line in lines_of(copy, uplinks)} for step in steps]
    for copy in copies:
        lines = lines_of(copy, uplinks)
        number = next((number for number, taken in enumerate(busy) if not taken & lines), len(steps))
        if number == len(steps):
            steps.append([])
            busy.append(set())
        steps[number].append(copy)
        busy[number] |= lines


def _frozen(steps: Iterable[Sequence[Copy]]) -> List[Step]:
    return [tuple(sorted(step)) for step in steps if step]
