"""What ``nvidia-smi topo -m`` says of pairs of GPUs, against itself, against the tree, and against an earlier sample.

    PIX  <  PXB  <  PHB  <  NODE  <  SYS        nearer to farther: one switch, several bridges, one host bridge, one socket, two

Nearness is a tree: of any three GPUs, no pair is farther apart than the farther of the two other pairs. An NV# cell hides how far
apart its pair is on the bus, and says nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise, permutations

from harness.devices.dumps.harvest import Matrix
from harness.devices.dumps.picture import Picture
from harness.procedures.analysis.diagnosis import Diagnosis, Severity

_LEVELS = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
"""SOC is how very old drivers print SYS."""
_SAME_SWITCH, _BRIDGES = 1, 2
_MOST = 64
"""GPUs of a table that is looked at: no machine has more, and every three of them are compared."""
_TOPOLOGY = "topology"


def judge_topology(picture: Picture) -> Iterator[Diagnosis]:
    """Every table of levels; the later of two tables of the same GPUs is compared with the one before."""
    tables = [matrix for matrix in picture.matrices if matrix.what == _TOPOLOGY and len(matrix.gpus) <= _MOST]
    for table in tables:
        yield from _contradictions(table)
        yield from _against_tree(picture, table)
    for before, after in pairwise(tables):
        if before.gpus == after.gpus:
            yield from _moved_apart(before, after)


def addresses_of(picture: Picture, matrix: Matrix) -> Mapping[str, str]:
    """The address of each GPU of a table: nvidia-smi numbers them in the order of their addresses. Empty where counts differ."""
    listed = [gpu.address for gpu in picture.gpus if gpu.address] or [
        function.bdf for function in picture.on_bus if function.vendor == "10de" and not function.is_gone
    ]
    names = sorted(matrix.gpus, key=lambda name: int(name.removeprefix("GPU")))
    return dict(zip(names, sorted(listed), strict=True)) if len(listed) == len(names) else {}


def _contradictions(table: Matrix) -> Iterator[Diagnosis]:
    """Pairs that are farther apart than a third GPU allows, and pairs that are told differently from each side."""
    split = sorted(
        f"{one}-{other} {_cell(table, one, other)} and {_cell(table, other, one)}"
        for one, other in combinations(table.gpus, 2)
        if 0 < _level(table, one, other) != _level(table, other, one) > 0
    )
    if split:
        yield _told(Severity.WARN, split, "the table says something else from each side", "the text was damaged on its way")
        return
    apart = sorted(words for three in permutations(table.gpus, 3) if (words := _farther(table, *three)))
    if apart:
        yield _told(
            Severity.FAIL,
            apart,
            "GPUs that share a way with a third one are told to be farther apart than both are from it",
            "a port between them reports another place than it has: a switch that was set up anew while the driver ran",
        )


def _farther(table: Matrix, one: str, middle: str, other: str) -> str:
    near, far, across = _level(table, one, middle), _level(table, middle, other), _level(table, one, other)
    if one > other or not (near and far) or across <= max(near, far):
        return ""
    apart, first, second = _cell(table, one, other), _cell(table, one, middle), _cell(table, middle, other)
    return f"{one}-{other} {apart}, though {first} and {second} to {middle}"


def _against_tree(picture: Picture, table: Matrix) -> Iterator[Diagnosis]:
    """Pairs that share a switch in the tree: a way through the processor (PHB or farther) fails, PXB for PIX warns."""
    addresses = addresses_of(picture, table)
    around: list[str] = []
    longer: list[str] = []
    for one, other in combinations(table.gpus, 2):
        told = _level(table, one, other)
        wanted = _shared(picture, addresses.get(one, ""), addresses.get(other, ""))
        if not wanted or told <= wanted:
            continue
        (around if told > _BRIDGES else longer).append(f"{one}-{other} {_cell(table, one, other)}")
    if around:
        yield _told(
            Severity.FAIL,
            around,
            "GPUs that share a switch in the tree are told to reach each other through the processor",
            "the driver saw another tree: the files are from different boots, or the switch was set up anew while it ran",
        )
    if longer:
        yield _told(
            Severity.WARN,
            longer,
            "GPUs behind one switch are told to be several bridges apart (PXB for PIX)",
            "the driver saw another tree, or the switch shows itself as several",
        )


def _moved_apart(before: Matrix, after: Matrix) -> Iterator[Diagnosis]:
    moved = [
        f"{one}-{other} {_cell(before, one, other)} before, {_cell(after, one, other)} now"
        for one, other in combinations(after.gpus, 2)
        if 0 < _level(before, one, other) < _level(after, one, other)
    ]
    if moved:
        yield _told(
            Severity.FAIL,
            moved,
            "GPUs are farther apart than in the sample before",
            "a card or cable in another slot, or a switch with another set-up",
        )


def _shared(picture: Picture, one: str, other: str) -> int:
    """How near two GPUs are by the bridge that both are behind: PIX below one switch, PXB below one bridge, 0 for none."""
    first, second = picture.snapshot.by_bdf.get(one), picture.snapshot.by_bdf.get(other)
    if first is None or second is None:
        return 0
    ways = [list(picture.snapshot.chain_up(function))[1:] for function in (first, second)]
    common = [bridge for bridge in ways[0] if bridge in ways[1]]
    if not common or all(bridge.parent is None for bridge in common):
        return 0  # a root port has one link: what two GPUs share only there is not a switch
    depths = [way.index(common[0]) for way in ways]
    return _SAME_SWITCH if max(depths) <= 1 else _BRIDGES


def _cell(table: Matrix, one: str, other: str) -> str:
    return table.cells.get((one, other), "nothing")


def _level(table: Matrix, one: str, other: str) -> int:
    return _LEVELS.get(_cell(table, one, other), 0)


def _told(severity: Severity, pairs: list[str], what: str, cause: str) -> Diagnosis:
    return Diagnosis(
        severity,
        "topology",
        f"{len(pairs)} pairs" if len(pairs) > 1 else pairs[0].split(" ", 1)[0],
        what,
        "; ".join(pairs[:6]) + (f"; {len(pairs) - 6} more" if len(pairs) > 6 else ""),
        "",
        cause,
        "mail lspci -Dnnvvvxxxx and nvidia-smi topo -m of the same boot; restart machine and chassis if they still differ",
    )
