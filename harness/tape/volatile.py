"""What differs between two recordings of the same thing, and why: the one list of values that a comparison leaves out.

    times       a member that holds a date                             -> <time>, where it holds one; null stays null
    names       job ids, boot ids, numbers of log entries              -> the n-th of its kind on this track
    text        kernel timestamps, process ids, names of temp files    -> taken out
    lines       what the kernel measures of its own clocks             -> dropped

A name that changes inside one recording still changes here: the second boot id of a track is ``<boot 2>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from harness.ports import Json

TIMES: Mapping[str, str] = {
    "DateTime": "the clock of the BMC",
    "Created": "when a log entry was written",
    "EventTimestamp": "when an event was raised",
    "LastResetTime": "when the system was last reset",
    "LastSystemInventoryTime": "when the hardware was last collected",
    "LastUpdateTime": "when an inventory was last written",
    "LastUpdated": "when an inventory was last collected",
    "StartTime": "when a job was started",
    "EndTime": "when a job ended",
    "ActualRunningStartTime": "when a job really started",
    "ActualRunningStopTime": "when a job really ended",
    "CompletionTime": "when a job was completed",
}
"""Members of JSON objects whose dates count time and nothing else."""

COUNTS: Mapping[str, str] = {
    "UptimeSeconds": "how long the BMC has been up",
    "SystemUpTime": "how long the system has been up",
}
"""Members of JSON objects whose numbers count time and nothing else."""

HEADERS: Mapping[str, str] = {
    "etag": "a digest that firmware is free to compute with a nonce or a time",
    "date": "the clock of the BMC",
}
"""Headers of HTTP answers."""

NAMES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "job": (re.compile(r"\bJID_\d+\b"), "an iDRAC makes the id of a job from the time"),
    "entry": (re.compile(r"(?<=/Entries/)\d+\b|(?<=\bLog Entry )\d+\b"), "a log goes on counting over the life of a machine"),
    "session": (re.compile(r"(?<=/Sessions/)\w+"), "a session is numbered by those before it"),
    "boot": (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "the kernel draws one at each boot"),
}
"""Pseudonyms by kind: the shape and the reason. The shape of a boot id is looked for where boot ids are told, nowhere else."""

TEXT: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"\x1b\[[0-9;=?]*[A-Za-z]"), "", "how a terminal is drawn"),
    (re.compile(r"^\[ *\d+\.\d+\] ?", re.MULTILINE), "", "seconds since the kernel started"),
    (re.compile(r"; last seen: .*", re.DOTALL), "", "how far a text had come when a wait ended"),
    (re.compile(r"\bbh\.\w+/\d+\."), "bh.*/*.", "the shell's temporary folder, and how many commands came before"),
    (re.compile(r"\b(login|systemd-logind|sshd)\[\d+\]"), r"\1[*]", "process ids"),
    (re.compile(r"(?<=/input/)input\d+"), "input*", "the kernel numbers input devices in the order in which they happen to come"),
)
"""Shapes in texts: what stands for them, and the reason."""

LINES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"^tsc: |^TSC found unstable|\bBogoMIPS\b|^clocksource: |^sched_clock: "),
        "the kernel measures its clocks, by another way at each boot",
    ),
    (
        re.compile(
            r"^\.\.MP-BIOS bug: 8254 timer|^\.{3,} ?(?:trying to set up timer|\(found apic|works\.|failed)"
            r"|^APIC (?:calibration|delta) "
        ),
        "a timer that came late when the kernel looked for it, as under emulation on a busy machine",
    ),
    (re.compile(r"^hrtimer: interrupt took |^perf: interrupt took too long "), "the machine was slow for a moment"),
    (re.compile(r"^rtc_cmos |^audit: type=2000 "), "the time of day"),
    (
        re.compile(r"^Memory: \d+K/|^node \d+ deferred pages initialised in "),
        "what was freed when the kernel looked, and how long it took",
    ),
    (
        re.compile(r"^efi: \w+=0x|^RAMDISK: |^(?:efi: )?Freeing EFI boot services memory: "),
        "where firmware put its tables and the initrd, which moves with their size, and what it gives back",
    ),
    (re.compile(r"\d+\.cmd \d+ [0-9a-f]{64} "), "a command of ours as the terminal echoes it"),
)
"""Lines of kernel logs and consoles that are dropped whole: the shape and the reason."""

_IN_THE_MIDDLE = re.compile(r"(?<=[^\n])(?=\[ *\d+\.\d{6}\] )")
"""Where the kernel spoke into a line that somebody else had begun."""

_PROMPT = re.compile(r"\S+ login:|\S* ?[#$%>]")
"""A prompt alone on its line: how often one shows depends on who else spoke at that moment."""

_PROMPTED = re.compile(r"^\S+ login: (?=\S)")
"""A prompt before what was typed: where the kernel spoke in between, the echo stands on a line of its own."""

BOOT_ID = "boot_id"
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")


class Steadying:
    """Makes values of one track comparable. It remembers which names it has met, so give it values in the track's order."""

    def __init__(self) -> None:
        self._met: dict[str, dict[str, int]] = {}

    def name(self, text: str) -> str:
        """A key or a header, with its names by number."""
        for kind in ("job", "entry", "session"):
            text = NAMES[kind][0].sub(lambda found, kind=kind: self._number(kind, found[0]), text)  # type: ignore[misc]
        return text

    def json(self, value: Json, member: str = "") -> Json:
        """A JSON value, ``member`` being the member of an object that holds it."""
        if isinstance(value, dict):
            steady = {self.name(name): self.json(each, name) for name, each in value.items()}
            if "<entry " in str(steady.get("@odata.id", "")) and "Id" in steady:
                steady["Id"] = str(steady["@odata.id"]).rpartition("/")[2]
            return steady
        if isinstance(value, list):
            return [self.json(each, member) for each in value]
        if member in COUNTS and isinstance(value, int | float):
            return "<time>"
        if not isinstance(value, str):
            return value
        if member in TIMES and _DATE.fullmatch(value):
            return "<time>"
        return self.boot_ids(value) if member == BOOT_ID else self.name(value)

    def boot_ids(self, text: str) -> str:
        """A text that tells boot ids."""
        return NAMES["boot"][0].sub(lambda found: self._number("boot", found[0]), text)

    def printed(self, key: str, text: str) -> Json:
        """What a command printed: the objects of an agent, the sorted lines of a kernel log, else the text."""
        command = key.partition(" ")[0]
        if command == "agent":
            return [self.json(_parsed(line)) for line in text.splitlines()]
        if command == "dmesg":
            return sorted(lines(text))
        return self.boot_ids(plain(text)) if BOOT_ID in key else self.name(plain(text))

    def headers(self, headers: Mapping[str, str]) -> dict[str, Json]:
        """The headers that count."""
        return {name: self.name(value) for name, value in headers.items() if name.lower() not in HEADERS}

    def _number(self, kind: str, name: str) -> str:
        met = self._met.setdefault(kind, {})
        return f"<{kind} {met.setdefault(name, len(met) + 1)}>"


def plain(text: str) -> str:
    """A text without what is volatile in it."""
    for shape, instead, _ in TEXT:
        text = shape.sub(instead, text)
    return text


def lines(text: str) -> Iterator[str]:
    """The lines of a kernel log or a console that count, as plain text."""
    apart = _IN_THE_MIDDLE.sub("\n", text.replace("\r", ""))
    for printed in plain(apart).split("\n"):
        line = _PROMPTED.sub("", printed)
        if line.strip() and not _PROMPT.fullmatch(line.strip()) and not any(shape.search(line) for shape, _ in LINES):
            yield line.rstrip()


def _parsed(line: str) -> Json:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return line
