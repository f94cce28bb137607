"""What a tape calls a question: operation, key, payload. Two questions with the same three are the same question."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from harness.ports import CommandQuestion, Effect, HttpQuestion, Json, Question
from harness.tape.events import RUN, VOLATILE


@dataclass(frozen=True)
class Asked:
    """A question in the words of a tape; ``ask`` is None where nothing was sent along, ``base`` the key without a digest."""

    op: str
    base: str
    ask: Json
    effect: Effect
    volatile: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The key; that of a read with a payload ends in the payload's digest, for each payload has a timeline of its own."""
        if self.effect is Effect.ACT or self.ask is None:
            return self.base
        return f"{self.base} #{digest(self.ask)}"


def asked(question: Question) -> Asked:
    """Put a question into the words of a tape.

    Values named volatile become ``<volatile>``. A named command is known by its name alone; one without a name by its
    arguments and its input.
    """
    if isinstance(question, HttpQuestion):
        body = json.loads(json.dumps(question.body))
        if question.volatile and isinstance(body, dict):
            body = {name: VOLATILE if name in question.volatile else value for name, value in body.items()}
        return Asked(question.method, question.path, body, question.effect, question.volatile)
    return Asked(RUN, question.key, _stdin(question), question.effect)


def digest(payload: Json) -> str:
    """Twelve hex digits that tell payloads apart, whatever the order of their keys."""
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:12]


def _stdin(question: CommandQuestion) -> str | None:
    if question.name or not question.stdin:
        return None
    return question.stdin.decode("utf-8", "backslashreplace")
