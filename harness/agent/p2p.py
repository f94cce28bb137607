"""Copies between all ordered pairs of GPUs: right to the last byte, straight, at speed, and when many copy at once.

    machine ─┬─ refused                              a translating IOMMU, without --force
             └─ loopback ─ matrix ─ crowds, shifts ─ pairs, links, xids

    machine   who is there, what stands in the way, how many peers each may have           p2p_machine
    loopback  each GPU within its own memory: all that one GPU alone can show, and no peer-to-peer copy
    matrix    all pairs: through the host, in steps, alone where odd, both ways at once     p2p_matrix
    crowds    several GPUs across one uplink, and all GPUs to the k-th next                 p2p_crowds

Making a context takes a good part of a second. What it takes here is measured, and decides how long one lives (p2p_contexts); its
cost is printed as ``contexts``. GPUs that hung or were lost are not touched again.
"""

import argparse
from typing import Any, Dict, Iterator, List

from .child import end_orderly
from .p2p_contexts import LIVES
from .p2p_crew import Crew
from .p2p_crowds import Crowds
from .p2p_load import Load
from .p2p_machine import Machine, why
from .p2p_matrix import Matrix
from .trouble import Trouble

SCHEMA = 1


def run(arguments: List[str]) -> Iterator[Dict[str, Any]]:
    """The worker's entry."""
    parser = argparse.ArgumentParser(prog="agent p2p")
    parser.add_argument("--loops", type=int, default=25, help="timed copies of each pair and direction")
    parser.add_argument("--size", type=int, default=256 << 20, help="bytes of the largest copy")
    parser.add_argument("--force", action="store_true", help="copy although an IOMMU translates: other memory may be overwritten")
    parser.add_argument("--serial", action="store_true", help="one pair at a time, whatever the topology")
    parser.add_argument("--contexts", choices=("auto", *LIVES), default="auto", help="how long a context lives")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds after which a copy counts as hung")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--root", default="/", help="where /sys is")
    given = parser.parse_args(arguments)
    if given.loops < 1 or given.size < 4 or given.size % 4 or given.patience <= 0:
        raise Trouble("p2p", "--loops, --size (a multiple of 4) and --patience must be positive")
    end_orderly()
    crew = Crew(Load(given.seed, given.size, given.patience), given.patience)
    try:
        for line in _lines(given, crew):
            yield line
    finally:
        crew.end()


def _lines(given: Any, crew: Crew) -> Iterator[Dict[str, Any]]:
    """Everything that is printed."""
    machine = Machine(crew, given.root)
    versions = machine.list()
    hello = {"kind": "hello", "worker": "p2p", "schema": SCHEMA, "seed": given.seed, "size": given.size, "loops": given.loops}
    yield dict(hello, **versions)
    for line in machine.preflight(force=given.force):
        yield line
    if machine.refused:
        yield {"kind": "refused", "why": machine.refused, "gpus": sorted(machine.gpus)}
        return
    for line in _loopbacks(machine, crew, given):
        yield line
    matrix = Matrix(machine, crew, given)
    for line in matrix.measure():
        yield line
    crowds = Crowds(machine, crew, given.loops)
    for line in crowds.progress():
        yield line
    for line in (*matrix.pairs(), *crew.end_watch(), *crowds.lines, *matrix.contexts()):
        yield line


def _loopbacks(machine: Machine, crew: Crew, given: Any) -> Iterator[Dict[str, Any]]:
    """All GPUs at once, for they share nothing; one that spoils it for the others is found by doing each alone."""
    alive = machine.alive(sorted(machine.gpus))
    said = crew.ask_alone(do="loop", copies=[(gpu, gpu) for gpu in alive], loops=given.loops)
    if said["say"] == "done":
        for line in said["pairs"]:
            yield _loopback(line["from"], line)
        return
    for gpu in alive:
        said = crew.ask_alone(do="loop", copies=[(gpu, gpu)], loops=given.loops)
        for line in crew.news():
            yield line
        if said["say"] == "done":
            yield _loopback(gpu, said["pairs"][0])
            continue
        machine.dead[gpu] = "a copy within GPU {} does not work: {}".format(gpu, why(said))
        yield {"kind": "loopback", "index": gpu, "untried": machine.dead[gpu]}
        if said["say"] == "stuck":
            wedged = {"kind": "wedged", "from": gpu, "to": gpu, "seconds": given.patience, "culprit": gpu}
            yield dict(wedged, reaped=crew.reaped)


def _loopback(gpu: int, line: Dict[str, Any]) -> Dict[str, Any]:
    kept = {name: value for name, value in line.items() if name not in ("from", "to") and value is not None}
    return dict(kept, kind="loopback", index=gpu)
