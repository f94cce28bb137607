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

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.errors import Blame
from harness.record.lines import CaseOutcome

PASSED = "PASSED"
FAILED = "FAILED"
INCOMPLETE = "INCOMPLETE"
BROKEN = "BROKEN"
HARNESS_ERROR = "HARNESS ERROR"
INTERRUPTED = "INTERRUPTED"

EXITS: Mapping[str, int] = {PASSED: 0, FAILED: 1, BROKEN: 3, INCOMPLETE: 3, HARNESS_ERROR: 4, INTERRUPTED: 130}
"""The exit status that goes with each word."""


class Ended(Protocol):
    """A case that has ended, of a running run or of a record; ``outcome`` is one of CaseOutcome."""

    @property
    def id(self) -> str:
        """``check[slot]``, or the check's id."""

    @property
    def check(self) -> str:
        """The check's id."""

    @property
    def outcome(self) -> str:
        """How it ended."""

    @property
    def blame(self) -> str:
        """Who is to blame, "" for nobody."""

    @property
    def information(self) -> bool:
        """True behind a degraded gate."""


@dataclass(frozen=True)
class Verdict:
    """``blame`` is product, bench, harness or "" (nobody); ``exit`` is the status the command ends with."""

    word: str
    blame: str
    exit: int


_FAILED = (
    (Blame.HARNESS, Verdict(HARNESS_ERROR, Blame.HARNESS.value, EXITS[HARNESS_ERROR])),
    (Blame.BENCH, Verdict(BROKEN, Blame.BENCH.value, EXITS[BROKEN])),
    (Blame.PRODUCT, Verdict(FAILED, Blame.PRODUCT.value, EXITS[FAILED])),
)


def conclude(
    cases: Iterable[Ended],
    *,
    interrupted: bool = False,
    optional: Collection[str] = (),
    not_run: Collection[str] = (),
    unreached: Collection[str] = (),
) -> Verdict:
    """Say how the run ended.

    ``optional`` holds check ids or case ids (``pcie.aperture``, ``pcie.aperture[jbogA/slot01]``) that the platform lets go
    unmeasured, and may hold stages. ``not_run`` are stages that were wanted and did not run; leave out those that nobody asked for.
    ``unreached`` are ids of cases that were planned and never began, for somebody ended the run early.

    A waived case fails nothing and is no pass. A case behind a degraded gate (``information``) counts like any other when it
    fails, and not at all when it passes. A run in which nothing passed is incomplete.
    """
    listed = tuple(cases)
    failed = {at_fault(case) for case in listed if case.outcome in (CaseOutcome.FAILED, CaseOutcome.ERROR)}
    worst = next((verdict for blame, verdict in _FAILED if blame in failed), None)
    if interrupted:
        return Verdict(INTERRUPTED, worst.blame if worst else "", EXITS[INTERRUPTED])
    if worst is not None:
        return worst
    missing = (
        bool(unreached) or any(_is_missing(case, optional) for case in listed) or any(stage not in optional for stage in not_run)
    )
    passed = any(case.outcome == CaseOutcome.PASSED and not case.information for case in listed)
    word = PASSED if passed and not missing else INCOMPLETE
    return Verdict(word, "", EXITS[word])


def at_fault(case: Ended) -> Blame:
    """Who has to act, given that the case failed.

    Without a blame a failure is the product's and an error the harness's. A usage mistake found in the middle of a run (the
    machine is reserved) is the bench's: the set-up was not ready.
    """
    if case.blame in (Blame.PRODUCT, Blame.BENCH, Blame.HARNESS):
        return Blame(case.blame)
    if case.blame == Blame.USAGE:
        return Blame.BENCH
    return Blame.PRODUCT if case.outcome == CaseOutcome.FAILED and not case.blame else Blame.HARNESS


def _is_missing(case: Ended, optional: Collection[str]) -> bool:
    if case.outcome == CaseOutcome.NOT_MEASURED:
        return case.check not in optional and case.id not in optional
    return case.outcome not in (CaseOutcome.PASSED, CaseOutcome.NOT_APPLICABLE, CaseOutcome.WAIVED)
