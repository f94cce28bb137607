"""What a failure's message says, taken apart: the sentence, the cause, the next step.

jbogB/slot07 (serial 99...) is lost at its link          the sentence; an alarm comes before a violated limit
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
_SHORT = 180


@dataclass(frozen=True)
class Account:
    """``said`` is one sentence, ``why`` what explains a violated limit, ``rest`` all other lines.

    The others are empty where the message has no such line. ``is_alarm``: the machine must not be used.
    """

    said: str
    why: str = ""
    seen: str = ""
    likely: str = ""
    next: str = ""
    rest: str = ""
    is_alarm: bool = False

    @property
    def short(self) -> str:
        """The sentence with its cause, short enough for a list."""
        said = f"{self.said}: {self.why}" if self.why else self.said
        cause = f" Likely: {self.likely}" if self.likely else ""
        return said[:_SHORT] + (" ..." if len(said) > _SHORT else "") + cause


def take_apart(message: str) -> Account:
    """The account of a case's message."""
    lines = [line for line in printable(message).splitlines() if line.strip()]
    if not lines:
        return Account("failed without a message")
    labelled: dict[str, str] = {}
    for line in lines:
        if found := _LABEL.match(line):
            labelled.setdefault(found["label"].lower(), found["text"].strip())
    said = next((line for line in lines if line.startswith(_ALARM)), lines[0])
    others = [line for line in lines if line is not said]
    why = next((line.strip() for line in others if not _VIOLATED.search(line) and not _LABEL.match(line)), "")
    return Account(
        said=clip(said.strip(), _SENTENCE),
        why=clip(why, _SENTENCE) if _VIOLATED.search(said) else "",
        seen=labelled.get("seen", ""),
        likely=labelled.get("likely", ""),
        next=labelled.get("next", ""),
        rest="\n".join(others),
        is_alarm=any(line.startswith(_ALARM) for line in lines),
    )
