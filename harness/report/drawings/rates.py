"""The training in figures and bars: each GPU alone with median and limit, the windows of all together over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from harness.limits import Outcome
from harness.record.entries import MeasurementRecord, Record
from harness.report.drawings.places import slots_by_address
from harness.report.drawings.svg import element, picture, text, title
from harness.report.exhibits import Exhibit, exhibit, rows
from harness.report.exhibits import text as text_of

_SHOWN = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hardware slowdown",
    "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat (hardware)",
    "hw_power_brake_slowdown": "power brake",
}


@dataclass(frozen=True)
class Trained:
    """One GPU. ``share`` is its bar in percent of the fastest; ``state`` is fail, marginal, ok or plain."""

    slot: str
    rate: float | None
    share: float
    state: str
    temperature: float | None
    power: float | None
    reasons: str


@dataclass(frozen=True)
class Training:
    """All of it; ``floor_share`` and ``median_share`` are where the limit and the median stand, in percent of the fastest."""

    identity: str
    gpus: tuple[Trained, ...]
    median: float | None
    median_share: float | None
    floor_share: float | None
    judged: tuple[MeasurementRecord, ...]
    windows: Markup | None
    untried: str


def show_training(record: Record) -> Training | None:
    """None where nothing was trained."""
    data = exhibit(record, "resnet50")
    if data is None:
        return None
    slots = slots_by_address(record)
    listed = rows(data, "gpus", str, str, float, float, float, dict)
    rates = [rate for _, _, rate, _, _, _ in listed if rate is not None]
    most, middle = max(rates, default=0.0), median(rates) if rates else None
    solo = next((each for each in record.measurements if each.name == "resnet50.solo" and each.bounds is not None), None)
    bounds = [
        bound
        for bound in (solo.bounds.bounds if solo is not None and solo.bounds is not None else ())
        if isinstance(bound, int | float)
    ]
    floor = None if not bounds or middle is None else bounds[0] * middle
    outcomes: dict[str, Outcome] = {}
    for measurement in record.measurements:
        if measurement.name in ("resnet50.solo", "resnet50.hash") and measurement.part is not None:
            known = outcomes.get(measurement.part.slot)
            outcomes[measurement.part.slot] = Outcome.FAIL if Outcome.FAIL in (known, measurement.outcome) else measurement.outcome
    return Training(
        identity=text_of(data, "identity"),
        gpus=tuple(_trained(slots.get(address or "", address or ""), row, most, outcomes) for address, *row in listed),
        median=middle,
        median_share=_share(middle, most),
        floor_share=_share(floor, most),
        judged=tuple(
            each
            for each in record.measurements
            if each.name in ("resnet50.total", "resnet50.median", "resnet50.efficiency", "resnet50.spread")
        ),
        windows=_draw_windows(data),
        untried=text_of(data, "untried"),
    )


def _trained(slot: str, row: Sequence[object], most: float, outcomes: dict[str, Outcome]) -> Trained:
    _, rate, temperature, power, reasons = row
    words = {Outcome.FAIL: "fail", Outcome.MARGINAL: "marginal", Outcome.PASS: "ok"}
    figures = [value if isinstance(value, int | float) else None for value in (rate, temperature, power)]
    told = reasons if isinstance(reasons, dict) else {}
    shares = [f"{_SHOWN.get(str(name), str(name))} {share:.0%}" for name, share in told.items() if isinstance(share, int | float)]
    state = words.get(outcomes.get(slot, Outcome.RECORDED), "plain")
    return Trained(slot, figures[0], _share(figures[0], most) or 0.0, state, figures[1], figures[2], ", ".join(shares))


def _share(value: float | None, most: float) -> float | None:
    return None if value is None or not most else round(100 * value / most, 2)


def _draw_windows(data: Exhibit) -> Markup | None:
    """Images/s of all together, window after window, on an axis that begins at zero."""
    listed = data.get("windows")
    rates = [rate for rate in listed if isinstance(rate, int | float)] if isinstance(listed, list) else []
    if not rates or max(rates) <= 0:
        return None
    width, height, left = 430.0, 110.0, 58.0
    top = max(rates) * 1.1
    step = (width - left - 10) / len(rates)
    parts = [
        element("path", d=f"M{left:g} 8V{height - 18:g}H{width - 6:g}", class_="trunk"),
        text(f"{max(rates):,.0f}", left - 6, 22, class_="tick", text_anchor="end"),
        text("0", left - 6, height - 16, class_="tick", text_anchor="end"),
        text("images/s", 2, 10, class_="axis"),
        text(f"windows 1 to {len(rates)}", width - 8, height - 3, class_="axis", text_anchor="end"),
    ]
    for at, rate in enumerate(rates):
        tall = (height - 26) * rate / top
        bar = element("rect", x=left + at * step + 1.5, y=height - 18 - tall, width=max(1.0, step - 3), height=tall, class_="bar")
        parts.append(element("g", bar, title(f"window {at + 1}: {rate:g} images/s")))
    said = f"{len(rates)} windows, {min(rates):,.0f} to {max(rates):,.0f} images/s"
    return picture(width, height, said, parts, css="windows")
