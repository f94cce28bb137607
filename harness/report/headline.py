"""The first line of every output: verdict, whose fault, live or replay, which machine, which firmware.

FAILED: the product's fault | REPLAY of tape r640-07, recorded 2026-03-02 from hardware; no machine was touched | service tag ...
"""

from __future__ import annotations

from harness.record.entries import Record
from harness.record.lines import CaseOutcome
from harness.record.verdict import BROKEN, FAILED, HARNESS_ERROR, INCOMPLETE, INTERRUPTED, PASSED, at_fault
from harness.report.text import one_line

ALL_STAGES = ("bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50")
"""What a whole run goes through; a run of fewer says so in its first line."""

UNFINISHED = "UNFINISHED"
DAMAGED = "DAMAGED RECORD"

_FAULTS = {"product": "the product's fault", "bench": "the bench's fault", "harness": "the harness's or the recording's fault"}
_SOURCES = {
    "hardware": "hardware",
    "virtual-lab": "a simulated machine (virtual lab, QEMU)",
    "model": "a simulated machine (model)",
}


def headline(record: Record) -> str:
    """One line. Nothing simulated is called hardware, and no replay claims more than that it replayed."""
    return one_line(" | ".join((verdict_and_fault(record) + _only(record), where_from(record), machine(record))))


def _only(record: Record) -> str:
    """Which stages were selected, where that is not all of them: neither a pass nor a failure speaks of the others."""
    names = [name for name in record.run.stages if name in ALL_STAGES]
    if not names or set(names) == set(ALL_STAGES):
        return ""
    return f"; only {'stage' if len(names) == 1 else 'stages'} {', '.join(names)}"


def _stages_not_run(record: Record) -> str:
    """A stage that was not run is not a pass, and the first line says so."""
    names = [stage.stage for stage in record.stages if stage.state == "not run"]
    return f"; not run: {', '.join(names)}" if names else ""


def word(record: Record) -> str:
    """The verdict's word; of a record that is not whole, what is wrong with it instead."""
    if record.end is None or record.truncated:
        return UNFINISHED
    return DAMAGED if record.damage else record.end.verdict


def verdict_and_fault(record: Record) -> str:
    """The verdict's word, whom it concerns, and how much somebody answers for."""
    waived = len(record.waived())
    return _verdict(record) + (f"; {waived} waived" if waived else "")


def _verdict(record: Record) -> str:
    shown = word(record)
    if shown == PASSED:
        passed = sum(case.outcome == CaseOutcome.PASSED for case in record.cases)
        return f"{shown}: nothing failed, {passed} {'case' if passed == 1 else 'cases'} passed{_stages_not_run(record)}"
    if shown in (FAILED, BROKEN, HARNESS_ERROR):
        return f"{shown}: {_FAULTS.get(record.end.blame if record.end else '', 'fault unknown')}{_not_judged(record)}"
    reasons = {
        UNFINISHED: "the record has no end (was the run killed?)",
        DAMAGED: next(iter(record.damage), ""),
        INCOMPLETE: f"nothing failed, but {_missing(record)}",
        INTERRUPTED: "stopped before its end",
    }
    return f"{shown}: {reasons.get(shown, 'a verdict this version does not know')}{_so_far(record)}"


def where_from(record: Record) -> str:
    """Live or replay, from what, and for a replay that no machine was touched."""
    run = record.run
    source = run.source or (run.tape.source if run.tape else "")
    machine_kind = _SOURCES.get(source, f"an unknown source ({source!r})")
    faults = f", faults switched on: {', '.join(run.faults)}" if run.faults else ""
    if run.mode == "replay":
        name = f"tape {run.tape.name}" if run.tape and run.tape.name else "an unnamed tape"
        recorded = f"recorded {run.tape.recorded_at[:10]}" if run.tape and run.tape.recorded_at else "of unknown date"
        return f"REPLAY of {name}, {recorded} from {machine_kind}{faults}; no machine was touched"
    if run.mode in ("live", "record"):
        kept = ", recorded on a tape" if run.mode == "record" else ""
        return f"LIVE on {machine_kind}{kept}{faults}{_resumed(record)}"
    return f"mode {run.mode!r} on {machine_kind}{faults}"


def _resumed(record: Record) -> str:
    """What was found by an earlier run is said to be."""
    resumed = record.run.resumed
    if resumed is None:
        return ""
    carried = f"{', '.join(resumed.stages)} carried over" if resumed.stages else "nothing carried over"
    return f", resumed from {resumed.run}: {carried}"


def machine(record: Record) -> str:
    """Which machine it was and its firmware, as recorded: on a replay the tag may be the tape's pseudonym."""
    facts = record.identity
    if not any(facts.get(name) for name in ("system", "service_tag", "bios", "idrac")):
        return "machine not identified"
    is_hidden = record.run.tape is not None and record.run.tape.pseudonyms
    tag = f"service tag {facts.get('service_tag') or 'unknown'}{' (a pseudonym)' if is_hidden else ''}"
    firmware = f"BIOS {facts.get('bios') or 'unknown'}, iDRAC {facts.get('idrac') or 'unknown'}"
    return ", ".join(part for part in (facts.get("system", ""), tag, firmware) if part)


def _so_far(record: Record) -> str:
    failed = record.failed()
    if not failed:
        return ""
    whose = " and ".join(dict.fromkeys(_FAULTS[at_fault(case).value] for case in failed))
    return f"; {len(failed)} failed so far ({whose})"


def _missing(record: Record) -> str:
    counts = {
        "not measured": sum(case.outcome == CaseOutcome.NOT_MEASURED for case in record.cases),
        "blocked": sum(case.outcome == CaseOutcome.BLOCKED for case in record.cases),
        "never reached": len(record.unreached),
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing was judged"


def _not_judged(record: Record) -> str:
    """Said where the set-up or the harness failed before the product could show anything; that a BMC answers shows nothing."""
    shown = [case for case in record.cases if case.stage != "bmc" or case.has_failed]
    judged = any(case.outcome == CaseOutcome.PASSED or (case.has_failed and at_fault(case) == "product") for case in shown)
    return "" if judged else "; the machine was not judged"
