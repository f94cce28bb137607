"""Heat maps of the copies between all GPUs: from down, to across; a thick line where a copy leaves one uplink for another.

Light is good, dark is bad, a figure stands in every cell, and what violates a limit is crossed, whatever its colour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from harness.limits import Outcome
from harness.record.entries import Record
from harness.report.drawings.places import chassis, short, slots_by_address, uplinks_by_slot
from harness.report.drawings.svg import element, picture, text, title
from harness.report.exhibits import Row, exhibit, objects, rows
from harness.report.exhibits import text as text_of
from harness.report.grid import natural

_CELL, _LEFT, _TOP = 25.0, 44.0, 46.0
_LIGHT, _DARK = (222, 235, 247), (8, 48, 107)
_LEAST_SPAN = 0.3
_WORST = 5


@dataclass(frozen=True)
class Pair:
    """One ordered pair by slots: GB/s, microseconds, wrong bytes; ``failed`` are the names of values that violate their limit."""

    origin: str
    target: str
    bandwidth: float | None
    latency: float | None
    bad: float | None
    note: str
    failed: frozenset[str]
    way: str

    @property
    def is_corrupt(self) -> bool:
        """True where wrong bytes came."""
        return bool(self.bad)


@dataclass(frozen=True)
class Map:
    """One of the three: its drawing, what it says in words, and its worst pairs as (pair, value, where)."""

    name: str
    drawing: Markup
    said: str
    worst: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class _Kind:
    name: str
    unit: str
    value: Callable[[Pair], float | None]
    names: frozenset[str]
    low_is_bad: bool


_KINDS = (
    _Kind("bandwidth", "GB/s", lambda pair: pair.bandwidth, frozenset({"p2p.bandwidth", "p2p.path"}), low_is_bad=True),
    _Kind("latency", "us", lambda pair: pair.latency, frozenset({"p2p.path"}), low_is_bad=False),
    _Kind("integrity", "wrong bytes", lambda pair: pair.bad, frozenset({"p2p.bad-bytes"}), low_is_bad=False),
)


def draw_maps(record: Record) -> list[Map]:
    """The three maps; none where fewer than two GPUs took part."""
    data = exhibit(record, "p2p") or {}
    slots = slots_by_address(record)
    names = [slots.get(address, address) or "" for address, _ in rows(data, "gpus", str, str)]
    if len(names) < 2:
        return []
    pairs = _pairs(record, rows(data, "pairs", int, int, float, float, float, str), names)
    expected = [text_of(slot, "slot") for slot in objects(exhibit(record, "pcie") or {}, "slots")]
    axis = sorted({*names, *expected}, key=natural)
    return [_map(kind, axis, pairs, uplinks_by_slot(record)) for kind in _KINDS]


def why_none(record: Record) -> str:
    """Why nothing was copied, where the worker said so."""
    return text_of(exhibit(record, "p2p") or {}, "refused")


def _pairs(record: Record, listed: Sequence[Row], names: Sequence[str]) -> list[Pair]:
    failed: dict[str, set[str]] = {}
    for measurement in record.measurements:
        if measurement.outcome == Outcome.FAIL and measurement.part is not None and " -> " in measurement.part.slot:
            failed.setdefault(measurement.part.slot, set()).add(measurement.name)
    uplinks = uplinks_by_slot(record)
    found = []
    for origin, target, bandwidth, latency, bad, note in listed:
        if origin is None or target is None or not (0 <= origin < len(names) and 0 <= target < len(names)):
            continue
        here, there = names[origin], names[target]
        above, below = chassis(here, uplinks), chassis(there, uplinks)
        way = f"both below {above}" if above == below else f"over the uplinks of {above} and {below}"
        names_failed = frozenset(failed.get(f"{here} -> {there}", ()))
        found.append(Pair(here, there, bandwidth, latency, bad, note or "", names_failed, way))
    return found


def _map(kind: _Kind, names: Sequence[str], pairs: Sequence[Pair], uplinks: Mapping[str, str]) -> Map:
    groups = [chassis(name, uplinks) for name in names]
    by_pair = {(pair.origin, pair.target): pair for pair in pairs}
    values = [value for pair in pairs if (value := kind.value(pair)) is not None]
    shade = _Shade(values, low_is_bad=kind.low_is_bad) if kind.name != "integrity" else None
    size = _CELL * len(names)
    parts = [*_axes(names, groups)]
    for row, origin in enumerate(names):
        for column, target in enumerate(names):
            if origin != target:
                pair = by_pair.get((origin, target))
                parts.append(_cell(kind, pair, f"{origin} -> {target}", (_LEFT + column * _CELL, _TOP + row * _CELL), shade))
    for at in range(1, len(names)):
        if groups[at] != groups[at - 1]:
            edge = at * _CELL
            parts.append(
                element(
                    "path",
                    d=f"M{_LEFT + edge:g} {_TOP - 30:g}v{size + 30:g}M{_LEFT - 40:g} {_TOP + edge:g}h{size + 40:g}",
                    class_="uplink",
                )
            )
    said = _said(kind, pairs, values)
    drawing = picture(_LEFT + size + 4, _TOP + size + 4, f"{kind.name}, {kind.unit}: {said}", parts, css="heat")
    return Map(kind.name, drawing, said, _worst(kind, pairs))


def _axes(names: Sequence[str], groups: Sequence[str]) -> list[Markup]:
    parts = [text("to", _LEFT + 2, 12, class_="axis"), text("from", 2, _TOP - 6, class_="axis")]
    for at, (name, group) in enumerate(zip(names, groups, strict=True)):
        middle = at * _CELL + _CELL / 2
        parts.append(text(short(name), _LEFT + middle, _TOP - 6, class_="tick", text_anchor="middle"))
        parts.append(text(short(name), _LEFT - 5, _TOP + middle + 4, class_="tick", text_anchor="end"))
        if at == 0 or groups[at - 1] != group:
            start = at * _CELL
            parts.append(text(group, _LEFT + start + 24, 12, class_="name"))
            x, y = 11, _TOP + start + 8
            parts.append(text(group, x, y, class_="name", transform=f"rotate(90 {x} {y:g})"))
    return parts


def _cell(kind: _Kind, pair: Pair | None, name: str, corner: tuple[float, float], shade: _Shade | None) -> Markup:
    value = None if pair is None else kind.value(pair)
    note = f", {pair.note}" if pair is not None and pair.note else ""
    if pair is None or value is None:
        return _box(
            corner, "?", f"{name}: not measured{note or ', one of them took no part' * (pair is None)}", css="none", ink="unknown"
        )
    told = f"{name}: {value:g} {kind.unit}{note}"
    if shade is None:
        return _box(
            corner,
            "✗" if pair.is_corrupt else "·",
            told,
            css="bad" if pair.is_corrupt else "clean",
            ink="inbad" if pair.is_corrupt else "inclean",
        )
    if pair.failed & kind.names:
        return _box(corner, _figure(value), told, css="bad", ink="inbad", is_crossed=True)
    colour, ink = shade.of(value)
    return _box(corner, _figure(value), told, fill=colour, ink=ink)


def _box(
    corner: tuple[float, float],
    words: str,
    told: str,
    *,
    ink: str,
    css: str | None = None,
    fill: str | None = None,
    is_crossed: bool = False,
) -> Markup:
    x, y = corner
    parts = [element("rect", x=x + 0.5, y=y + 0.5, width=_CELL - 1, height=_CELL - 1, class_=css, fill=fill)]
    if is_crossed:
        parts.append(element("path", d=f"M{x + 2:g} {y + 2:g}l21 21m0 -21l-21 21", class_="cross"))
    parts.append(text(words, x + _CELL / 2, y + _CELL / 2 + 3.5, class_=ink, text_anchor="middle"))
    return element("g", *parts, title(told), class_="broken" if css == "bad" else None)


class _Shade:
    """A colour for each value, from light (the best) to dark (the worst), and the class of an ink that can be read on it."""

    def __init__(self, values: Sequence[float], *, low_is_bad: bool) -> None:
        self._low, self._high = min(values, default=0.0), max(values, default=1.0)
        if self._high - self._low < _LEAST_SPAN * self._high:  # hardly any difference must not look like one
            middle = (self._high + self._low) / 2
            half = _LEAST_SPAN * self._high / 2
            self._low, self._high = middle - half, middle + half
        self._low_is_bad = low_is_bad

    def of(self, value: float) -> tuple[str, str]:
        share = (value - self._low) / (self._high - self._low) if self._high > self._low else 0.0
        bad = min(1.0, max(0.0, 1 - share if self._low_is_bad else share))
        rgb = [round(light + (dark - light) * bad) for light, dark in zip(_LIGHT, _DARK, strict=True)]
        return "#{:02x}{:02x}{:02x}".format(*rgb), "onlight" if _luminance(rgb) > 0.18 else "ondark"


def _luminance(rgb: Sequence[int]) -> float:
    """Relative luminance of sRGB (WCAG 2)."""
    linear = [part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _said(kind: _Kind, pairs: Sequence[Pair], values: Sequence[float]) -> str:
    missing = len(pairs) - len(values)
    tail = f"; {missing} of {len(pairs)} pairs not measured" if missing else ""
    if not values:
        return f"nothing was measured{tail}"
    if kind.name == "integrity":
        corrupt = sum(pair.is_corrupt for pair in pairs)
        return f"{corrupt or 'no'} corrupt {'pair' if corrupt == 1 else 'pairs'}, {len(values) - corrupt} clean{tail}"
    ways: dict[str, list[float]] = {}
    for pair in pairs:
        if (value := kind.value(pair)) is not None:
            ways.setdefault("below one uplink" if pair.way.startswith("both") else "over two uplinks", []).append(value)
    middles = ", ".join(f"median {median(listed):.3g} {kind.unit} {way}" for way, listed in ways.items())
    return f"{min(values):.3g} to {max(values):.3g} {kind.unit}; {middles}{tail}"


def _worst(kind: _Kind, pairs: Sequence[Pair]) -> tuple[tuple[str, str, str], ...]:
    measured = [(value, pair) for pair in pairs if (value := kind.value(pair)) is not None]
    if kind.name == "integrity":
        measured = [(value, pair) for value, pair in measured if value]
    measured.sort(key=lambda each: (not each[1].failed & kind.names, each[0] if kind.low_is_bad else -each[0]))
    kept = measured[: _WORST if kind.name != "integrity" else 4 * _WORST]
    return tuple(
        (
            f"{pair.origin} -> {pair.target}",
            f"{value:g} {kind.unit}{f' ({pair.note})' if pair.note else ''}",
            pair.way + (", outside its limit" if pair.failed & kind.names else ""),
        )
        for value, pair in kept
    )
