"""What the sections bios, boot and firmware of the page say, from the record's exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.record.entries import Record
from harness.report.drawings.bars import Step, show_steps
from harness.report.exhibits import Exhibit, Row, exhibit, number, rows, text, texts


@dataclass(frozen=True)
class Settings:
    """The BIOS settings. Rows are (name, wanted, before, after, as wanted: yes or no or "", note); ``off`` those that say no.

    ``events`` are (seconds since the first, job or host, what, the BMC's words).
    """

    rows: tuple[Row, ...]
    off: tuple[Row, ...]
    pending: tuple[Row, ...]
    events: tuple[tuple[float, str, str, str], ...]
    stopped: str


@dataclass(frozen=True)
class Start:
    """The start of the machine; times in seconds, None where they are not known."""

    steps: tuple[Step, ...]
    took: float | None
    usual: float | None
    within: float | None
    events: tuple[Row, ...]
    earlier: int
    console: tuple[str, ...]
    silent: str
    stopped: str


@dataclass(frozen=True)
class Versions:
    """Rows are (name, version, baseline, complaint), ``others`` (name, version) of what no baseline is about."""

    rows: tuple[Row, ...]
    others: tuple[Row, ...]


def show_settings(record: Record) -> Settings | None:
    """None where the stage never looked."""
    data = exhibit(record, "bios")
    if data is None:
        return None
    listed = rows(data, "settings", str, str, str, str, str, str)
    return Settings(
        rows=tuple(listed),
        off=tuple(row for row in listed if row[4] == "no"),
        pending=tuple(rows(data, "pending", str, str)),
        events=tuple(_events(data)),
        stopped=text(data, "stopped"),
    )


def _events(data: Exhibit) -> Sequence[tuple[float, str, str, str]]:
    """The job's changes and the restart between them; what is said twice stands once."""
    events: dict[tuple[str, str, str], float] = {}
    for at, job, phase, percent, code, said in rows(data, "job", float, str, str, int, str, str):
        what = f"{job}: {phase}{'' if percent is None else f', {percent} %'}"
        if at is not None:
            events.setdefault(("job", what, f"{code or ''} {said or ''}".strip()), at)
    for key, what in (("reset", "restart asked for"), ("restarted", "host seen restarting")):
        if (at := number(data, key)) is not None:
            events["host", what, ""] = at
    listed = sorted(((at, *event) for event, at in events.items()), key=lambda event: event[0])
    return [(at - listed[0][0], kind, what, said) for at, kind, what, said in listed]


def show_start(record: Record) -> Start | None:
    """None where the stage never looked."""
    data = exhibit(record, "boot")
    if data is None:
        return None
    reset, back = number(data, "reset"), number(data, "reached")
    return Start(
        steps=tuple(show_steps(record)),
        took=None if reset is None or back is None else back - reset,
        usual=number(data, "usual") or None,
        within=number(data, "within") or None,
        events=tuple(rows(data, "events", str, str, str, str)),
        earlier=int(number(data, "earlier") or 0),
        console=tuple(texts(data, "console")),
        silent=text(data, "silent"),
        stopped=text(data, "stopped"),
    )


def show_versions(record: Record) -> Versions:
    """The baseline's rows, and what the machine said of its BIOS and iDRAC where no baseline is about them."""
    data: Mapping[str, object] = exhibit(record, "firmware") or {}
    judged = rows(data, "rows", str, str, str, str)
    for name, version in (("iDRAC", record.identity.get("idrac")), ("BIOS", record.identity.get("bios"))):
        if version and not any((row[0] or "").startswith(name) for row in judged):
            judged.insert(0, (name, version, "", ""))
    return Versions(tuple(judged), tuple(rows(data, "others", str, str)))
