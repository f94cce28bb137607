"""The last look before anything is written to a BMC or to the fabric, whoever asks: a procedure, or a check that somebody added.

    act ─▶ consent? ─▶ danger named? ─▶ lock still ours? ─▶ service tag still the pinned one? ─▶ sent, and its author noted

Reads pass. The service tag is read again unless the question just before was that very read. One guard stands in front of the
BMC's lane, live and in replay alike, so both ask the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.consent import Consent
from harness.errors import BenchError, UsageMistake
from harness.ports import Effect, HttpAnswer, HttpAsks, HttpQuestion, OnLine
from harness.procedures.bios.danger import unnamed
from harness.secret import NOT_SHOWN, holds_secret

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
"""Where the tag is read until an answer showed where the system is (Dell's path)."""

READING = ("GetRemoteServicesAPIStatus", "ExportServerScreenShot", "ExportVideoLog", "ExportSystemConfiguration")
"""The actions that read although they are POSTs (DellLCService, OemManager)."""


class GuardedBmc:
    """Implements HttpAsks in front of a BMC's lane.

    ``tag`` is the pinned service tag, "" where the bench pins none (then nothing is written). ``wrote`` hears every act that was
    let through. ``insist_on_lock`` raises OwnershipError where somebody has stolen the machine's lock meanwhile.

    Raises UsageMistake for an act without consent, BenchError for another machine.
    """

    def __init__(
        self,
        asks: HttpAsks,
        consent: Consent,
        tag: str,
        wrote: Callable[[HttpQuestion], None],
        insist_on_lock: Callable[[], None] = lambda: None,
    ) -> None:
        self._asks = asks
        self._consent = consent
        self._tag = tag
        self._wrote = wrote
        self._insist_on_lock = insist_on_lock
        self._system = SYSTEM
        self._seen = ""

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        """Ask; an act only after the last look."""
        if _changes(question):
            self._allow(question)
            self._wrote(question)
        self._seen = ""
        answer = self._asks.ask(question, on_line)
        self._look(question, answer)
        return answer

    def close(self) -> None:
        """Close the lane behind."""
        self._asks.close()

    def _allow(self, question: HttpQuestion) -> None:
        if not self._consent.apply:
            raise UsageMistake(f"{question.key} would change the machine: that needs --apply")
        for attribute, value in _attributes(question).items():
            for danger in unnamed(attribute, value, self._consent.danger):
                shown = NOT_SHOWN if holds_secret(attribute) else value
                raise UsageMistake(f"{attribute} = {shown}: {danger.why}; that needs --danger {danger.name}")
        self._insist_on_lock()
        if not self._tag or self._seen != self._tag:
            reread = HttpQuestion.observe("GET", self._system)
            self._look(reread, self._asks.ask(reread))
        if not self._tag or self._seen != self._tag:
            answers = f"service tag {self._seen or 'none'} answers"
            raise BenchError(f"{question.key} was not sent: {answers}, the bench pins {self._tag or 'none'}")

    def _look(self, question: HttpQuestion, answer: HttpAnswer) -> None:
        """Remember the tag that an answer about the system shows."""
        body = answer.body
        if question.method == "GET" and isinstance(body, dict) and str(body.get("@odata.type", "")).startswith("#ComputerSystem."):
            self._seen = str(body.get("SKU") or "") if answer.status == 200 else ""
            if self._tag and self._seen == self._tag:  # an HGX board or a DPU is a ComputerSystem too, with no tag or its own
                self._system = question.path


class GuardedFabric:
    """Implements HttpAsks in front of a fabric's lane: parts are moved with consent only, and only while the lock is ours.

    Raises UsageMistake for an act without consent, and what ``insist_on_lock`` raises.
    """

    def __init__(self, asks: HttpAsks, consent: Consent, insist_on_lock: Callable[[], None] = lambda: None) -> None:
        self._asks = asks
        self._consent = consent
        self._insist_on_lock = insist_on_lock

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        """Ask; an act only after the last look."""
        if question.effect is Effect.ACT or question.method not in ("GET", "HEAD"):
            if not self._consent.apply:
                raise UsageMistake(f"{question.key} would change the fabric: that needs --apply")
            self._insist_on_lock()
        return self._asks.ask(question, on_line)

    def close(self) -> None:
        """Close the lane behind."""
        self._asks.close()


def _changes(question: HttpQuestion) -> bool:
    """What a request does by its method and path, whatever its author called it: only known POSTs read."""
    if question.effect is Effect.ACT or question.method not in ("GET", "HEAD", "POST"):
        return True
    return question.method == "POST" and not question.path.endswith(READING)


def _attributes(question: HttpQuestion) -> Mapping[str, Any]:
    """The BIOS attributes that a request sets."""
    body = question.body
    found = body.get("Attributes") if isinstance(body, dict) and "/Bios" in question.path else None
    return found if isinstance(found, dict) else {}
