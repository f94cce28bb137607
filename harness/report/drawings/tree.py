"""The PCIe tree: one row a link, indented by how deep it hangs; a lost part stands dashed where it should be.

pci0000:3a
├══ 3b:00.0 switch      x16 Gen3
│   └══ 3d:00.0 switch  x16 Gen3   uplink jbogA
│       ├══ slot01      x16 Gen3 under load
│       └┄┄ slot02  ✗   lost at its link
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.limits import Outcome
from harness.record.entries import MeasurementRecord, Record
from harness.report.drawings.places import short, worst
from harness.report.drawings.svg import element, picture, text, title
from harness.report.exhibits import Exhibit, exhibit, objects, rows
from harness.report.exhibits import text as text_of

_WIDTH, _ROW, _STEP, _LINK, _TOP = 430.0, 21.0, 18.0, 26.0, 26.0
_PORTS = ("root port", "switch downstream port")
_OF_SLOT = ("pcie.width", "pcie.port-width", "pcie.target-generation", "p2p.link-generation", "p2p.link-width", "p2p.replay-rate")
_MARKS = {"fail": "✗", "marginal": "~", "lost": "✗", "ok": "", "plain": ""}


@dataclass(frozen=True)
class Row:
    """One link and what hangs on it. ``state`` is ok, marginal, fail, lost or plain (not judged); ``lanes`` 0 where unknown."""

    path: str
    depth: int
    name: str
    detail: str
    state: str
    lanes: int
    note: str = ""


def draw_trees(record: Record) -> list[Markup]:
    """One drawing for each host bridge that parts are expected below."""
    data = exhibit(record, "pcie")
    if data is None:
        return []
    listed = list(_rows(record, data))
    roots = list(dict.fromkeys(row.path.partition("/")[0] for row in listed))
    return [_draw(root, [row for row in listed if row.path.startswith(f"{root}/")]) for root in roots]


def _rows(record: Record, data: Exhibit) -> Iterator[Row]:
    functions = {text_of(entry, "path"): entry for entry in objects(data, "tree")}
    slots = {text_of(entry, "path"): entry for entry in objects(data, "slots")}
    by_place: dict[str, list[MeasurementRecord]] = {}
    for measurement in record.measurements:
        if measurement.part is not None:
            by_place.setdefault(measurement.part.slot, []).append(measurement)
    uplinks = [(name, path, lost) for name, path, lost in rows(data, "uplinks", str, str, dict) if name and path]
    for path in sorted({*functions, *slots}):
        function, slot = functions.get(path), slots.get(path)
        if function is not None and slot is None and text_of(function, "what") in _PORTS:
            continue
        depth = _depth(path, functions)
        if slot is not None:
            name = text_of(slot, "slot")
            yield _slot_row(path, depth, slot, function, by_place.get(name, ()))
        elif function is not None:
            yield _bridge_row(path, depth, function, uplinks, by_place)


def _depth(path: str, functions: Mapping[str, Exhibit]) -> int:
    """How many links lie between the host bridge and a function: one below each port that leads down."""
    steps = path.split("/")
    above = ["/".join(steps[:length]) for length in range(2, len(steps))]
    known = [functions[each] for each in above if each in functions]
    counted = sum(text_of(entry, "what") in _PORTS for entry in known)
    return max(1, counted + (len(above) - len(known) + 1) // 2 if len(known) < len(above) else counted)


def _slot_row(path: str, depth: int, slot: Exhibit, function: Exhibit | None, measured: Sequence[MeasurementRecord]) -> Row:
    name, lost = text_of(slot, "slot"), slot.get("lost")
    if isinstance(lost, dict):
        serial = f"serial {text_of(lost, 'serial')}: " if text_of(lost, "serial") else ""
        likely = f"{serial}{text_of(lost, 'likely')}"
        return Row(path, depth, name, f"lost at {text_of(lost, 'at')}", "lost", _lanes(function), likely)
    links = [measurement for measurement in measured if measurement.name in _OF_SLOT]
    loaded = next((measurement.value for measurement in links if measurement.name == "p2p.link-generation"), None)
    said = _link(function) if loaded is None else f"x{_lanes(function) or '?'} Gen{loaded} under load"
    bad = [f"{each.name.partition('.')[2]} {each.shown}" for each in links if each.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    state = _state(worst(links)) if function is not None else "plain"
    return Row(path, depth, name, said if function is not None else "not seen", state, _lanes(function), ", ".join(bad))


def _bridge_row(
    path: str,
    depth: int,
    function: Exhibit,
    uplinks: Sequence[tuple[str, str, object]],
    by_place: Mapping[str, Sequence[MeasurementRecord]],
) -> Row:
    """A switch, or a part nobody expects. Its link may be a hop of uplinks: the hop's own values say how it is."""
    above = path.rpartition("/")[0]
    through = [(name, end, lost) for name, end, lost in uplinks if end == above or end.startswith(f"{above}/")]
    hop = f".hop{depth}."
    links = [
        each
        for name, _, _ in through
        for each in by_place.get(name, ())
        if each.name.startswith("pcie.uplink-") and hop in each.name
    ]
    named = [f"uplink {name}" for name, end, _ in through if end == above]
    bad = [f"{each.name.split('.')[1]} {each.shown}" for each in links if each.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    is_gone = function.get("gone") is True or any(end == above and lost for _, end, lost in through)
    what = text_of(function, "what").removesuffix(" upstream port")
    name = f"{text_of(function, 'bdf').removeprefix('0000:')} {what}"
    return Row(
        path,
        depth,
        name,
        " · ".join([_link(function), *named]),
        "lost" if is_gone else _state(worst(links)),
        _lanes(function),
        ", ".join(dict.fromkeys(bad)),
    )


def _state(outcome: Outcome | None) -> str:
    return {Outcome.FAIL: "fail", Outcome.MARGINAL: "marginal", Outcome.PASS: "ok"}.get(outcome, "plain") if outcome else "plain"


def _lanes(function: Exhibit | None) -> int:
    width = None if function is None else function.get("width")
    return width if isinstance(width, int) else 0


def _link(function: Exhibit | None) -> str:
    if function is None:
        return ""
    generation, most = function.get("gen"), function.get("most")
    best = most[0] if isinstance(most, list) and most and isinstance(most[0], int) else None
    rests = isinstance(generation, int) and best is not None and generation < best and text_of(function, "what") == "GPU"
    width = f"x{_lanes(function)}" if _lanes(function) else "width not read"
    return f"{width} Gen{generation}{' at rest' if rests else ''}" if isinstance(generation, int) else width


def _draw(root: str, listed: Sequence[Row]) -> Markup:
    heights = [_ROW * (1.75 if row.note else 1) for row in listed]
    parts = [text(root, 4, 16, class_="name")]
    bottoms: dict[int, float] = {0: _TOP - 6}
    y = _TOP
    for row, height in zip(listed, heights, strict=True):
        middle = y + _ROW / 2
        parts.append(_draw_row(row, middle, bottoms.get(row.depth - 1, _TOP - 6)))
        bottoms = {depth: at for depth, at in bottoms.items() if depth < row.depth} | {row.depth: middle + 6}
        y += height
    lost = [row.name for row in listed if row.state == "lost"]
    gone = f", lost: {', '.join(lost)}" if lost else ""
    label = f"Tree below {root}: {len(listed)} links{gone}"
    return picture(_WIDTH, y + 6, label, parts, css="tree")


def _draw_row(row: Row, y: float, from_y: float) -> Markup:
    x = _STEP * (row.depth - 1) + 10
    end = x + _LINK
    thick = {16: 5.0, 8: 3.5, 4: 2.5}.get(row.lanes, 1.5)
    is_slot = "/" in row.name
    name = row.name
    drawn = [
        element("path", d=f"M{x:g} {from_y:g}V{y:g}", class_="trunk"),
        element("path", d=f"M{x:g} {y:g}H{end:g}", class_=f"link {row.state}", stroke_width=thick if row.state != "lost" else 3),
        element("circle", cx=end, cy=y, r=3.5, class_=f"end {row.state}"),
        text(f"{_MARKS[row.state]} {name}".strip(), end + 8, y + 4, class_=f"name {row.state}"),
        text(
            row.detail, end + 8 + _LETTER * (len(name) + (2 if _MARKS[row.state] else 0)) + 8, y + 4, class_=f"detail {row.state}"
        ),
        title(" ".join(part for part in (row.name, row.detail, row.note) if part)),
    ]
    if row.note:
        drawn.append(text(_fit(row.note, _WIDTH - end - 12), end + 8, y + 18, class_="note"))
    return element("g", *drawn, class_="row", data_slot=short(row.name) if is_slot else None)


_LETTER = 7.0
_SMALL_LETTER = 6.0


def _fit(words: str, width: float) -> str:
    room = int(width / _SMALL_LETTER)
    return words if len(words) <= room else f"{words[: room - 1]}…"
