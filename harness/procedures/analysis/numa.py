"""Which socket each GPU belongs to: none, another one than the ports above it, or several.

numa_node of sysfs, NUMA node of lspci, numaid of NCCL      the node of a function; -1 is what firmware gives none
NUMA Affinity of nvidia-smi topo -m                         the driver's word for the same
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Function
from harness.devices.pcie.kernel_events import Kind
from harness.procedures.analysis.diagnosis import Diagnosis, Severity
from harness.procedures.analysis.topology import addresses_of

_NONE = -1


def judge_numa(picture: Picture) -> Iterator[Diagnosis]:
    """Every GPU: has it a node, is it that of the ports above it and of the driver, and which copies cross sockets?"""
    yield from _without_node(picture)
    for function in picture.on_bus:
        yield from _elsewhere(picture, function)
    yield from _by_the_driver(picture)
    yield from _crossing(picture)


def _without_node(picture: Picture) -> Iterator[Diagnosis]:
    """GPUs to which firmware gives no node; on a machine that is known to have one node only it does not matter."""
    lost = [function for function in picture.on_bus if function.numa_node == _NONE]
    line = next((event.line for event in picture.events if event.kind is Kind.NODELESS), "")
    has_sockets = any((function.numa_node or 0) > 0 for function in picture.snapshot.functions)
    if lost and (has_sockets or line):
        yield Diagnosis(
            Severity.WARN,
            "numa",
            f"{len(lost)} GPUs" if len(lost) > 1 else picture.label(lost[0].bdf),
            "the firmware gives no NUMA node (-1), so programs and buffers are put on any socket",
            line or "numa_node -1",
            picture.source_of(line),
            "the firmware's tables say nothing of the proximity of this host bridge",
            "switch NUMA on in the firmware's setup or update it; until then bind programs by hand, by the slot's socket",
            tuple(function.bdf for function in lost),
        )
    elif line and not lost:
        yield Diagnosis(Severity.NOTE, "numa", "kernel log", "a host bridge has no NUMA node", line, picture.source_of(line))


def _elsewhere(picture: Picture, function: Function) -> Iterator[Diagnosis]:
    above = [
        bridge.numa_node
        for bridge in picture.snapshot.chain_up(function)[1:]
        if bridge.numa_node is not None and bridge.numa_node != _NONE
    ]
    if function.numa_node is None or function.numa_node == _NONE or not above:
        return
    node, _ = Counter(above).most_common(1)[0]
    if node != function.numa_node:
        yield Diagnosis(
            Severity.FAIL,
            "numa",
            picture.label(function.bdf),
            f"it counts to NUMA node {function.numa_node}, and the ports above it to node {node}: it is behind the other socket",
            "",
            "",
            "the files are from different boots, or the firmware's tables tie this slot to the wrong socket",
            "compare with the slot's socket in the machine's manual; update the firmware; bind programs by hand until then",
            (function.bdf,),
        )


def _by_the_driver(picture: Picture) -> Iterator[Diagnosis]:
    for matrix in picture.matrices:
        addresses = addresses_of(picture, matrix)
        for name, told in matrix.nodes.items():
            function = picture.snapshot.by_bdf.get(addresses.get(name, ""))
            own = None if function is None else function.numa_node
            if function is not None and own is not None and own != _NONE and told.isdigit() and int(told) != own:
                yield Diagnosis(
                    Severity.FAIL,
                    "numa",
                    f"{name}, {picture.label(function.bdf)}",
                    f"the driver counts it to NUMA node {told}, and the system to node {own}",
                    "",
                    "",
                    "the files are from different boots, or one of them is from another machine",
                    "mail files of one machine and one boot",
                    (function.bdf,),
                )


def _crossing(picture: Picture) -> Iterator[Diagnosis]:
    nodes = _nodes(picture)
    counted = Counter(node for node in nodes.values() if node >= 0)
    if len(counted) < 2:
        return
    told = ", ".join(f"{count} on node {node}" for node, count in sorted(counted.items()))
    yield Diagnosis(
        Severity.NOTE,
        "numa",
        f"{sum(counted.values())} GPUs",
        f"copies between nodes cross the link between processors (UPI on Intel's): {told}",
    )


def _nodes(picture: Picture) -> Mapping[str, int]:
    """The node of each GPU, by address or, where no file shows the bus, by its name in nvidia-smi."""
    nodes = {function.bdf: function.numa_node for function in picture.on_bus if function.numa_node is not None}
    if not nodes:
        return {name: int(node) for matrix in picture.matrices for name, node in matrix.nodes.items() if node.isdigit()}
    return nodes
