"""The verdict of a run: one word, whom to blame, the exit status.

    Ctrl-C ─────────────────────────── INTERRUPTED    130
    a case failed, harness at fault ── HARNESS ERROR    4
    a case failed, bench at fault ──── BROKEN           3
    a case failed, product at fault ── FAILED           1
    something was not measured ─────── INCOMPLETE       3
    all of it passed ───────────────── PASSED           0

The first line that holds counts. A product failure stands above what was not measured: it is certain whatever the missing values
would have said, and what is blocked behind it is its consequence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from harness.errors import Blame
from harness.record.entries import CaseRecord
from harness.record.lines import CaseOutcome

PASSED = "PASSED"
FAILED = "FAILED"
INCOMPLETE = "INCOMPLETE"
BROKEN = "BROKEN"
HARNESS_ERROR = "HARNESS ERROR"
INTERRUPTED = "INTERRUPTED"


@dataclass(frozen=True)
class Verdict:
    """``blame`` is product, bench, harness or "" (nobody); ``exit`` is the status the command ends with."""

    word: str
    blame: str
    exit: int


_FAILED = (
    (Blame.HARNESS, Verdict(HARNESS_ERROR, Blame.HARNESS.value, 4)),
    (Blame.BENCH, Verdict(BROKEN, Blame.BENCH.value, 3)),
    (Blame.PRODUCT, Verdict(FAILED, Blame.PRODUCT.value, 1)),
)


def conclude(
    cases: Iterable[CaseRecord],
    *,
    interrupted: bool = False,
    optional: Collection[str] = (),
    not_run: Collection[str] = (),
) -> Verdict:
    """Say how the run ended.

    ``optional`` holds check ids or case ids (``pcie.aperture``, ``pcie.aperture[jbogA/slot01]``) that the platform lets go
    unmeasured, and may hold stages. ``not_run`` are stages that were wanted and did not run; leave out those that nobody asked for.

    A case behind a degraded gate (``information``) counts like any other when it fails, and not at all when it passes. A run in
    which nothing passed is incomplete.
    """
    listed = tuple(cases)
    failed = {case.at_fault for case in listed if case.has_failed}
    worst = next((verdict for blame, verdict in _FAILED if blame in failed), None)
    if interrupted:
        return Verdict(INTERRUPTED, worst.blame if worst else "", 130)
    if worst is not None:
        return worst
    missing = any(_is_missing(case, optional) for case in listed) or any(stage not in optional for stage in not_run)
    passed = any(case.outcome == CaseOutcome.PASSED and not case.information for case in listed)
    return Verdict(PASSED, "", 0) if passed and not missing else Verdict(INCOMPLETE, "", 3)


def _is_missing(case: CaseRecord, optional: Collection[str]) -> bool:
    if case.outcome == CaseOutcome.NOT_MEASURED:
        return not {case.check, case.case, f"{case.check}[{case.slot}]"} & set(optional)
    return case.outcome == CaseOutcome.BLOCKED
