"""The modelled machine's workers print what the real ones print: the same kinds of lines, with the same fields."""

import json

import pytest

from harness.lab.model.parts import View
from harness.lab.model.workers import answer

ONLY_THE_MODEL_KNOWS = {"text"}
"""The kernel's own words for an Xid: NVML gives the number, the kernel log the words."""

ONLY_FAULTS_HAVE = {"alone", "error", "error_code", "untried", "wrong"}


def fields(lines):
    found = {}
    for line in lines:
        found.setdefault(line["kind"], set()).update(line)
    return found


def modelled(view, worker, *arguments):
    return fields(json.loads(line) for _, line in answer(worker, arguments, view))


@pytest.mark.parametrize(
    ("worker", "arguments", "faults", "modelled_faults"),
    [
        ("nvml", ("--watch", "0"), "held:0>5", {"p2p.preflight"}),
        ("telemetry", ("--seconds", "0.1"), "", set()),
        pytest.param(
            "p2p",
            ("--loops", "2"),
            "held:0>5 dropped:0>4 fallen:3",
            {"p2p.preflight", "p2p.integrity.dropped", "p2p.watchdog"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_field_of_the_model_is_one_of_the_real_worker(machine, worker, arguments, faults, modelled_faults):
    made = machine("2x5", faults)
    more = made.options() if worker == "p2p" else ()
    real = fields(made.lines(worker, *arguments, *more))
    view = View(frozenset(modelled_faults), 1, {"MmioAbove4Gb": "Enabled"}, 0.0)
    for kind, names in modelled(view, worker, *arguments).items():
        if kind != "end":
            assert names - ONLY_THE_MODEL_KNOWS <= real[kind], kind


@pytest.mark.parametrize(
    ("worker", "arguments"), [("nvml", ("--watch", "0")), ("telemetry", ("--seconds", "0.1")), ("p2p", ("--loops", "2"))]
)
def test_the_model_leaves_no_field_out_that_the_real_worker_prints_of_a_healthy_machine(machine, worker, arguments):
    made = machine("2x3")
    real = fields(made.lines(worker, *arguments, *(made.options() if worker == "p2p" else ())))
    mine = modelled(View(frozenset(), 1, {"MmioAbove4Gb": "Enabled"}, 0.0), worker, *arguments)
    assert {kind: names - ONLY_FAULTS_HAVE for kind, names in real.items()} == {
        kind: names - ONLY_FAULTS_HAVE for kind, names in mine.items() if kind != "end"
    }
