"""JUnit XML for dashboards: valid for the Jenkins xunit plugin's junit-10 schema and readable by GitLab and Azure DevOps.

    testsuites
    ├─ testsuite <stage>      one testcase per case; planned cases that never came and stages not run are skipped ones
    └─ testsuite bringup      one testcase: the verdict

Three consumers shape it. junit-10 knows no ``disabled``, no ``timestamp``, ``file`` or ``line`` on a case, and properties only
below a suite. GitLab shows the content of ``skipped`` and drops a second case of the same name. Azure DevOps looks for
attachments only in the first ``system-out``.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence

from junit_xml import TestCase, TestSuite

from harness.errors import Blame
from harness.limits import Outcome
from harness.record.entries import CaseRecord, MeasurementRecord, PlannedCase, Record
from harness.record.lines import CaseOutcome
from harness.record.verdict import PASSED, at_fault
from harness.report.headline import headline, word
from harness.report.summary import reason_not_reached
from harness.report.text import clip_bytes, is_inside, one_line, printable

OUTPUT_LIMIT = 64_000
"""Bytes of UTF-8 that one ``system-out`` or one failure text may take."""

_LINE_LIMIT = 2_000
_MESSAGE_LIMIT = 1_000
_SKIPPED = {
    CaseOutcome.BLOCKED: "BLOCKED",
    CaseOutcome.NOT_MEASURED: "NOT MEASURED",
    CaseOutcome.NOT_APPLICABLE: "NOT APPLICABLE",
    CaseOutcome.WAIVED: "WAIVED",
}
_NOTES_ROOM = 400
_INFORMATION = "for information: the stage ran on the parts present; a pass here does not improve the verdict"


def render_junit(record: Record) -> str:
    """The record as JUnit XML, encoded as UTF-8 when written."""
    return _document(headline(record), _suites(record))


def merge_junit(records: Sequence[Record]) -> str:
    """Several runs as one file: each run's suites under its name, and attachments by the paths of their run's folders.

    Cases keep their names within their suite; suites and class names begin with the run's, so that none hides another.
    """
    names = _run_names(records)
    suites = [suite for record, name in zip(records, names, strict=True) for suite in _suites(record, name)]
    return _document(f"{len(records)} runs: {', '.join(names)}", suites)


def _run_names(records: Sequence[Record]) -> list[str]:
    """The ids of the runs without what would part a class name; one that stands twice is numbered."""
    named = [_disarmed(one_line(record.run.id, 100)).replace(".", "_") or "run" for record in records]
    return [f"{name} ({named[: at + 1].count(name)})" if named[:at].count(name) else name for at, name in enumerate(named)]


def _document(name: str, suites: Sequence[ET.Element]) -> str:
    root = ET.Element("testsuites", name=one_line(name))
    root.extend(suites)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", _seconds(sum(float(suite.get("time", "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suites(record: Record, run: str = "") -> list[ET.Element]:
    """The suites of one record; of a run with a name among others, under that name."""
    properties = _properties(record)
    listed = [(stage, _stage_cases(record, stage)) for stage in record.stage_names]
    suites = [_suite(name, cases, properties) for name, cases in [*listed, ("bringup", [_verdict_case(record)])]]
    for suite in suites if run else ():
        suite.set("name", f"{run}: {suite.get('name')}")
        for case in suite.iter("testcase"):
            case.set("classname", f"{run}.{case.get('classname')}")
        for output in suite.iter("system-out"):
            output.text = _below(record, output.text or "")
    return suites


def _below(record: Record, text: str) -> str:
    """``text`` with its attachments' paths below the run's folder, as the one who renders sees it."""
    folder = "" if record.path is None else record.path.parent.as_posix()
    return text.replace("[[ATTACHMENT|", f"[[ATTACHMENT|{_disarmed(one_line(folder))}/") if folder not in ("", ".") else text


def _suite(name: str, cases: Sequence[TestCase], properties: dict[str, str]) -> ET.Element:
    """The package's element without what junit-10 does not know, and with times of three decimals at most, as it wants them."""
    _make_unique(cases)
    element: ET.Element = TestSuite(printable(name), list(cases), properties=properties).build_xml_doc()
    del element.attrib["disabled"]
    element.set("time", _seconds(sum(case.elapsed_sec for case in cases)))
    for case, child in zip(cases, element.iter("testcase"), strict=True):
        child.set("time", _seconds(case.elapsed_sec))
    return element


def _stage_cases(record: Record, stage: str) -> list[TestCase]:
    cases = [_case(case, record.by_case.get(case.id, ())) for case in record.cases_of(stage)]
    reason = reason_not_reached(record.stage(stage))
    cases += [_not_run(plan, reason) for plan in record.unreached if plan.stage == stage]
    if not cases:
        cases.append(_not_run(PlannedCase(f"{stage}.stage", stage=stage), reason))
    return cases


def _case(case: CaseRecord, measurements: Sequence[MeasurementRecord]) -> TestCase:
    entry = _entry(case.id, case.stage, case.took)
    entry.stdout = _output(case, measurements)
    message = printable(case.message).strip()
    if case.has_failed:
        blame, said = at_fault(case).value, message or "failed without a message"
        _fail(entry, blame, said if blame == Blame.PRODUCT else f"{blame.upper()}: {said}")
    elif (label := _SKIPPED.get(case.outcome)) is not None:
        _skip(entry, label, message or "no reason given")
    return entry


def _not_run(plan: PlannedCase, reason: str) -> TestCase:
    entry = _entry(plan.id, plan.stage, 0.0)
    _skip(entry, "NOT RUN", reason)
    return entry


def _verdict_case(record: Record) -> TestCase:
    """The last case: it is green only where the run came to its end and passed."""
    entry = TestCase("verdict", classname="bringup", elapsed_sec=0.0)
    shown = word(record)
    blame = record.end.blame if record.closed and record.end else ""
    lines = [headline(record), *record.damage, *(f"hand-over: {text}" for text in record.handovers), *record.notes]
    if shown != PASSED:
        _fail(entry, blame or shown.lower(), "\n".join(lines))
    entry.stdout = clip_bytes(_disarmed(printable("\n".join(lines))), OUTPUT_LIMIT)
    return entry


def _entry(name: str, stage: str, took: float) -> TestCase:
    seconds = round(took, 3) if math.isfinite(took) and took > 0 else 0.0
    return TestCase(one_line(name, 300) or "unnamed", classname=f"bringup.{printable(stage)}", elapsed_sec=seconds)


def _fail(entry: TestCase, kind: str, message: str) -> None:
    """A product failure is a ``failure``, anything else an ``error``; ``kind`` is its type."""
    text = clip_bytes(printable(message), OUTPUT_LIMIT)
    first = one_line(text.split("\n", maxsplit=1)[0], _MESSAGE_LIMIT)
    if kind == Blame.PRODUCT:
        entry.add_failure_info(first, text, kind)
    else:
        entry.add_error_info(first, text, kind)


def _skip(entry: TestCase, label: str, reason: str) -> None:
    """The reason goes into the message and into the content: some dashboards show only the one, some only the other."""
    text = printable(reason)
    text = text if text.upper().startswith(label) else f"{label}: {text}"
    entry.add_skipped_info(one_line(text, _MESSAGE_LIMIT), clip_bytes(text, OUTPUT_LIMIT))


def _output(case: CaseRecord, measurements: Sequence[MeasurementRecord]) -> str | None:
    """Measurement lines, then attachment markers, each alone on its line. What does not fit is counted; violated limits stay."""
    markers = [f"[[ATTACHMENT|{_disarmed(one_line(path))}]]" for path in case.attachments if is_inside(path)]
    lines = [_disarmed(one_line(str(measurement), _LINE_LIMIT)) for measurement in measurements]
    shown_markers = _fitting(markers, range(len(markers)), OUTPUT_LIMIT // 2)
    room = OUTPUT_LIMIT - _NOTES_ROOM - sum(_size(marker) for marker in shown_markers)
    failed_first = sorted(range(len(lines)), key=lambda at: measurements[at].outcome != Outcome.FAIL)
    shown = _fitting(lines, failed_first, room)
    notes = [_INFORMATION] if case.information else []
    for what, all_of_them, some in (("measurements", lines, shown), ("attachments", markers, shown_markers)):
        if len(some) < len(all_of_them):
            notes.append(f"... {len(all_of_them) - len(some)} more {what} in results.jsonl")
    return "\n".join([*shown, *notes, *shown_markers]) or None


def _disarmed(text: str) -> str:
    """Text that no dashboard takes for a marker: a machine must not be able to have a file of the CI server attached."""
    return text.replace("[[", "[ [")


def _fitting(lines: Sequence[str], order: Iterable[int], room: int) -> list[str]:
    """The lines that fit into ``room`` bytes when taken in ``order``; they keep their own order."""
    chosen = []
    for at in order:
        room -= _size(lines[at])
        if room < 0:
            break
        chosen.append(at)
    return [lines[at] for at in sorted(chosen)]


def _size(line: str) -> int:
    return len(line.encode("utf-8")) + 1


def _make_unique(cases: Iterable[TestCase]) -> None:
    seen: set[str] = set()
    for case in cases:
        name, count = case.name, 1
        while case.name in seen:
            count += 1
            case.name = f"{name} ({count})"
        seen.add(case.name)


def _properties(record: Record) -> dict[str, str]:
    run = record.run
    facts = {
        **record.identity,
        "bench": run.bench,
        "platform": run.platform,
        "mode": run.mode,
        "source": run.source,
        "harness": run.harness,
        "run": run.id,
        "started": run.started,
        "tape.recorded_at": run.tape.recorded_at if run.tape else "",
        "faults": ", ".join(run.faults),
    }
    return {one_line(name, 100): one_line(value, _MESSAGE_LIMIT) for name, value in facts.items() if value}


def _seconds(value: float) -> str:
    return f"{value:.3f}"
