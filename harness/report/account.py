"""What a failure's message says, taken apart: the sentence, the cause, the next step.

jbogB/slot07 (serial 99...) is lost at its link          the sentence: the first line that is no violated limit
    seen    SltSta PresDet+, LnkSta DLActive-            evidence
    likely  the card in the slot does not train          cause
    next    reseat the card                              step; also a line of its own that begins with "next:"
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.report.text import clip, printable

_LABEL = re.compile(r"^\s*(?P<label>likely|next|seen|where|chain|with it)(?:\s{2,}|:\s+)(?P<text>\S.*)$", re.IGNORECASE)
_VIOLATED = re.compile(r" = .*\s(?:FAIL|MARGINAL)$")
_ALARM = "DATA CORRUPTION"
_SENTENCE = 300


@dataclass(frozen=True)
class Account:
    """``said`` is one sentence; the others are empty where the message has no such line.

    ``is_alarm``: the machine must not be used.
    """

    said: str
    seen: str = ""
    likely: str = ""
    next: str = ""
    is_alarm: bool = False


def take_apart(message: str) -> Account:
    """The account of a case's message."""
    lines = [line for line in printable(message).splitlines() if line.strip()]
    labelled: dict[str, str] = {}
    for line in lines:
        if found := _LABEL.match(line):
            labelled.setdefault(found["label"].lower(), found["text"].strip())
    return Account(
        said=clip(_sentence(lines), _SENTENCE),
        seen=labelled.get("seen", ""),
        likely=labelled.get("likely", ""),
        next=labelled.get("next", ""),
        is_alarm=any(line.startswith(_ALARM) for line in lines),
    )


def _sentence(lines: list[str]) -> str:
    """The alarm, else the first line; a violated limit with what explains it."""
    if not lines:
        return "failed without a message"
    alarm = next((line for line in lines if line.startswith(_ALARM)), None)
    if alarm is not None:
        return alarm.strip()
    first = lines[0].strip()
    if _VIOLATED.search(first):
        why = next((line.strip() for line in lines[1:] if not _VIOLATED.search(line) and not _LABEL.match(line)), "")
        return f"{first}: {why}" if why else first
    return first
