"""The agent's facts against ``lspci -vvv``, run by the same kernel in the same boot: two readers of one machine, field by field."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

from harness.devices.pcie import parse_snapshot

pytestmark = [pytest.mark.qemu, pytest.mark.socket]
ELSEWHERE = runpy.run_path(str(Path(__file__).parents[2] / "devices" / "pcie" / "test_against_lspci.py"))
facts_of_lspci, facts_of_harness = ELSEWHERE["facts_of_lspci"], ELSEWHERE["facts_of_harness"]
"""The words of lspci about registers are read in one place."""

SCALES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
IDENTITY = {
    "subsystem": r"\n\tSubsystem: (\S+)",
    "driver": r"\n\tKernel driver in use: (\S+)",
    "slot": r"\n\tPhysical Slot: (\S+)",
    "node": r"\n\tNUMA node: (\d+)",
    "memory": r"\n\tControl: .*\bMem([+-])",
    "master": r"\n\tControl: .*\bBusMaster([+-])",
}
WINDOWS = {"I/O": 13, "Memory": 14, "Prefetchable memory": 15}


@pytest.fixture(scope="module")
def seen(open_bench):
    """What the harness made of the agent's lines, and what lspci prints, by address."""
    with open_bench() as bench:
        bench.stage(MmioAbove4Gb="Enabled")
        bench.reset("On")
        bench.follow("OSRunning")
        bench.terminal.log_in()
        snapshot = parse_snapshot(bench.terminal.agent("pci"))
        printed = bench.terminal.run("lspci -vvv -n -D 2>/dev/null")
    return snapshot, dict(part.strip().split(" ", 1) for part in printed.split("\n\n") if part.strip())


def size_of(text):
    number, scale = re.fullmatch(r"(\d+)([KMGT]?)", text).groups()
    return int(number) * SCALES[scale]


def identity_in(text):
    """Class, ids, revision, subsystem, driver, slot, node and the bits that let it answer, as far as lspci prints them."""
    head = re.match(r"(\w{4}): (\w{4}:\w{4})(?: \(rev (\w+)\))?(?: \(prog-if (\w+))?", text)
    facts = {"kind": head[1], "id": head[2], "revision": head[3] or "00", "interface": head[4] or "00"}
    for name, pattern in IDENTITY.items():
        if found := re.search(pattern, text):
            facts[name] = found[1]
    return facts


def identity_of(snapshot, function, wanted):
    slot = snapshot.slot_of(function)
    facts = {
        "kind": function.kind,
        "id": function.id,
        "revision": function.revision,
        "interface": function.class_code[4:],
        "subsystem": function.subsystem,
        "driver": function.driver,
        "slot": None if slot is None else slot.name,
        "node": str(function.numa_node),
        "memory": "+" if function.config.memory_enabled else "-",
        "master": "+" if function.config.bus_master else "-",
    }
    return {name: facts[name] for name in wanted}


def space_in(text):
    """BARs as (start, size, 64-bit, prefetchable) by index, I/O BARs as (start, size); windows as (start, end)."""
    found = {}
    for index, start, width, prefetch, size in re.findall(
        r"\tRegion (\d): Memory at (\w+) \((\d\d)-bit, (non-)?prefetchable\).*\[size=(\w+)\]", text
    ):
        found[int(index)] = (int(start, 16), size_of(size), width == "64", not prefetch)
    for index, start, size in re.findall(r"\tRegion (\d): I/O ports at (\w+).*\[size=(\w+)\]", text):
        found[int(index)] = (int(start, 16), size_of(size))
    for kind, start, end, rest in re.findall(r"\t(I/O|Memory|Prefetchable memory) behind bridge: (\w+)-(\w+)(.*)", text):
        if "[disabled]" not in rest:
            found[WINDOWS[kind]] = (int(start, 16), int(end, 16))
    return found


def space_of(function):
    found = {}
    for bar in function.bars:
        if not bar.assigned or bar.index in range(6, 13):
            continue
        if bar.index > 12:
            found[bar.index] = (bar.start, bar.end)
        else:
            found[bar.index] = (bar.start, bar.size, *((bar.is_64bit, bar.prefetchable) if bar.is_memory else ()))
    return found


def test_both_list_the_same_functions(seen):
    snapshot, theirs = seen
    assert sorted(snapshot.by_bdf) == sorted(theirs)
    assert len(theirs) > 40


def test_both_tell_the_same_of_ids_classes_drivers_and_slots(seen):
    snapshot, theirs = seen
    compared = Counter()
    for bdf, text in theirs.items():
        wanted = identity_in(text)
        assert identity_of(snapshot, snapshot.by_bdf[bdf], wanted) == wanted, bdf
        compared.update(wanted.keys())
    assert compared["subsystem"] >= 20
    assert compared["driver"] >= 40  # endpoints and ports
    assert compared["slot"] == 20


def test_a_driver_and_a_node_that_lspci_does_not_print_are_none_here_too(seen):
    snapshot, theirs = seen
    for bdf, text in theirs.items():
        if "Kernel driver in use" not in text:
            assert snapshot.by_bdf[bdf].driver == "", bdf
        if "NUMA node" not in text:
            assert snapshot.by_bdf[bdf].numa_node in (None, -1), bdf


def test_both_tell_the_same_of_bars_and_windows(seen):
    snapshot, theirs = seen
    ours = {bdf: space_of(snapshot.by_bdf[bdf]) for bdf in theirs}
    assert ours == {bdf: space_in(text) for bdf, text in theirs.items()}
    bars = [bar for found in ours.values() for index, bar in found.items() if index < 6]
    assert sum(len(bar) == 4 and bar[1:] == (16 * 2**30, True, True) for bar in bars) == 20
    assert sum(15 in found for found in ours.values()) >= 20


def test_both_tell_the_same_of_buses(seen):
    snapshot, theirs = seen
    buses = {bdf: re.search(r"secondary=(\w+), subordinate=(\w+)", text) for bdf, text in theirs.items()}
    for bdf, found in buses.items():
        function = snapshot.by_bdf[bdf]
        assert (found is not None) == function.is_bridge, bdf
        if found is not None:
            assert (function.secondary_bus, function.subordinate_bus) == tuple(int(bus, 16) for bus in found.groups()), bdf
    assert sum(found is not None for found in buses.values()) >= 22


def test_both_tell_the_same_of_links_payloads_slots_errors_and_access_control(seen):
    snapshot, theirs = seen
    compared = Counter()
    for bdf, text in theirs.items():
        wanted = facts_of_lspci(text)
        assert facts_of_harness(snapshot.by_bdf[bdf].config, wanted) == wanted, text
        compared.update(wanted.keys())
    for fact in ("width", "width_most", "generation", "generation_most", "payload", "payload_most"):
        assert compared[fact] >= 20, compared
    for fact in ("presence", "slot", "correctable", "uncorrectable"):
        assert compared[fact] >= 20, compared
    assert compared["acs_control"] >= 1, compared


def test_the_kernel_and_the_registers_tell_the_same_of_an_endpoints_link(seen):
    snapshot, _ = seen
    endpoints = [function for function in snapshot.functions if function.kind == "0108" and function.config.express]
    assert len(endpoints) == 20
    for function in endpoints:
        link = function.config.express.link
        assert (function.link.current_width, function.link.generation) == (link.width, link.generation), function.bdf
