"""Letting cases go that somebody answers for, at the moment they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from harness.plugin.case import Case
from harness.record.lines import CaseOutcome
from harness.waivers import Waiver, Waivers, unused


@dataclass
class Waiving:
    """The waivers of one run, and which of them were used. ``today`` decides which have expired."""

    waivers: Waivers
    platform: str
    today: date
    _used: set[Waiver] = field(default_factory=set)

    def holding(self, case: Case, identity: Mapping[str, str]) -> Waiver | None:
        """The waiver that lets a case go as it stands; None where there is none, or it does not hold."""
        waiver = self.waivers.for_case(case.id, case.check, self.platform)
        return None if waiver is None or self._objections(case, waiver, identity) else waiver

    def apply(self, case: Case, identity: Mapping[str, str]) -> None:
        """Let a case go that a waiver covers; where the waiver does not hold, say in its message why."""
        waiver = self.waivers.for_case(case.id, case.check, self.platform)
        if waiver is None or case.outcome not in _FALLEN_SHORT:
            return
        if objections := self._objections(case, waiver, identity):
            case.message = f"{case.message}\nnot waived: {', '.join(objections)}; {waiver}"
            return
        self._used.add(waiver)
        case.waiver = {
            "check": waiver.check,
            "ticket": waiver.ticket,
            "owner": waiver.owner,
            "expires": waiver.expires.isoformat(),
            "reason": waiver.reason,
            "outcome": case.outcome,
        }
        case.message = f"WAIVED by {waiver}\nwithout it: {case.outcome}\n{case.message}".rstrip()
        case.outcome = CaseOutcome.WAIVED

    def take_over(self, cases: Iterable[Case]) -> None:
        """Count the waivers as used that let cases go in the run that this one goes on with."""
        told = {(case.waiver["check"], case.waiver["ticket"]) for case in cases if case.waiver is not None}
        here = (waiver for waiver in self.waivers.entries if waiver.platform == self.platform)
        self._used |= {waiver for waiver in here if (waiver.check, waiver.ticket) in told}

    def unused(self, identity: Mapping[str, str]) -> list[str]:
        """What to say at the end of the waivers that let nothing go."""
        return unused(self.waivers, self._used, self.platform, identity, self.today)

    def _objections(self, case: Case, waiver: Waiver, identity: Mapping[str, str]) -> list[str]:
        """Why it does not let this case go. The bench and the harness are not the machine that somebody answers for, and whoever
        answers for a check has not answered for a machine that nobody reached."""
        told = waiver.objections(self.platform, identity, self.today)
        if case.outcome == CaseOutcome.BLOCKED and waiver.check != case.id:
            return ["what is blocked is waived only by the case's own name", *told]
        if case.failed and not case.is_the_products_alone:
            return ["only what the product alone failed is waived", *told]
        return told if case.outcome in _FALLEN_SHORT else ["it did not fall short", *told]


_FALLEN_SHORT = (CaseOutcome.FAILED, CaseOutcome.ERROR, CaseOutcome.NOT_MEASURED, CaseOutcome.BLOCKED)
