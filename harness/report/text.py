"""Text from machines and colleagues, made fit to be shown: hostile characters become visible, long texts say that they are cut.

Nothing is dropped silently. A control character, half a surrogate pair or a change of writing direction is shown as its escape
(``\\x1b``), which is also what keeps XML well-formed and a terminal safe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufdd0-\ufdef"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_LAYOUT = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
_BREAK = re.compile(r"[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def printable(text: str) -> str:
    """``text`` with only tabs, newlines and characters that can be seen."""
    return _HIDDEN.sub(_escape, text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, limit: int = 2000) -> str:
    """``text`` on one line, at most about ``limit`` characters."""
    return clip(_BREAK.sub(" ", printable(text).strip()).replace("\t", " "), limit)


def visible(text: str) -> str:
    """``text`` whole and on one line, its line breaks and tabs as escapes: nothing in it can pass for a line of ours."""
    return _HIDDEN.sub(_escape, text.translate(_LAYOUT))


def first_sentence(text: str, limit: int = 200) -> str:
    """The first sentence of the first line that says anything."""
    for line in printable(text).splitlines():
        if line.strip():
            return clip(_SENTENCE_END.split(line.strip(), maxsplit=1)[0], limit)
    return ""


def listed(names: Sequence[str], limit: int) -> str:
    """``names`` with commas between them, whole ones only: at most about ``limit`` characters, then how many more there are."""
    room, shown = limit, 0
    for name in names:
        room -= len(name) + 2
        if room < 0 and shown:
            break
        shown += 1
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more else "")


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text`` and, where that cuts it, how many are missing."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit} more characters in results.jsonl)"


def clip_bytes(text: str, limit: int) -> str:
    """Like ``clip``, but ``limit`` is in bytes of UTF-8 and holds for the result, its note included."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return text
    note = f"\n... (cut: {len(data)} bytes in all, see results.jsonl)"
    return data[: max(0, limit - len(note))].decode("utf-8", "ignore") + note


def is_inside(path: str) -> bool:
    """True for an attachment's path that stays in the run's folder."""
    return bool(path) and not path.startswith(("/", "\\")) and ".." not in re.split(r"[/\\]", path)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
