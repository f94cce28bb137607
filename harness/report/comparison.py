"""Several runs beside each other: what changed between runs of one machine, and what differs between units.

    identity and firmware    each version that is not the same in all runs
    parts                    by serial number: another part in the slot, or the part moved (of one machine)
    outcomes                 cases that ended otherwise
    measurements             values that moved beyond the noise of their like

The first run is what the others are compared with. Noise is not assumed but taken from the runs: where many parts have the
same measurement, its usual change from run to run is the noise, and what lies far outside it is told; all of them moving
together is told once. Few of a kind are told from a twentieth on (ours). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.limits import Outcome
from harness.part import Part
from harness.record.entries import MeasurementRecord, Record
from harness.report.exhibits import exhibit, rows
from harness.report.grid import natural
from harness.report.headline import verdict_and_fault, where_from
from harness.units import amount

_MANY = 5
_FEW_NOISE = 0.05
_LEAST_NOISE = 0.02
_FAR = 5 * 1.4826
"""Times the median deviation: five standard deviations of what is normally distributed."""

_ONCE = frozenset({"bios.job", "boot.boot-id", "pcie.boot-id", "boot.console-bytes", "pcie.acs-redirecting"})
"""Measurements that name one run, such as its job: different every time, and no change of the machine."""

_PART_WORDS = ("model", "serial", "part_number", "firmware")


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in all runs: its values in the order of the runs ("" where a run has none), and a remark."""

    what: str
    values: tuple[str, ...]
    remark: str = ""
    is_worse: bool = False


@dataclass(frozen=True)
class Comparison:
    """What differs; ``runs`` are (id, when, verdict, source), ``compared`` counts values that stand in more than one run."""

    runs: tuple[tuple[str, str, str, str], ...]
    subject: str
    is_one_machine: bool
    firmware: tuple[Difference, ...]
    parts: tuple[Difference, ...]
    outcomes: tuple[Difference, ...]
    measurements: tuple[Difference, ...]
    compared: int

    @property
    def sections(self) -> tuple[tuple[str, str, tuple[Difference, ...]], ...]:
        """(name, what it says where nothing differs, differences), in the order in which a person asks."""
        return (
            ("Firmware and identity", "the same in all runs", self.firmware),
            ("Parts", "the same parts in the same slots" if self.is_one_machine else "the same models and firmware", self.parts),
            ("Outcomes", "every case ended alike", self.outcomes),
            ("Measurements beyond noise", f"{self.compared} values, none moved beyond the noise of its like", self.measurements),
        )


def compare(records: Sequence[Record]) -> Comparison:
    """Compare two runs or more with the first of them."""
    tags = [record.identity.get("service_tag", "") for record in records]
    one = bool(tags[0]) and len(set(tags)) == 1
    moved, compared = _measurements(records)
    return Comparison(
        runs=tuple((run.run.id, run.run.started, verdict_and_fault(run), where_from(run)) for run in records),
        subject=_subject(tags, one=one),
        is_one_machine=one,
        firmware=tuple(_differences(map(_versions, records))),
        parts=tuple(_parts(records, one=one)),
        outcomes=tuple(_outcomes(records)),
        measurements=tuple(moved),
        compared=compared,
    )


def _subject(tags: Sequence[str], *, one: bool) -> str:
    if one:
        return f"{len(tags)} runs of the machine {tags[0]}"
    named = ", ".join(dict.fromkeys(tag or "not identified" for tag in tags))
    return f"{len(tags)} runs of different machines: {named}"


def _versions(record: Record) -> Mapping[str, str]:
    """Everything that has a version, by name."""
    data = exhibit(record, "firmware") or {}
    listed = {name: version for name, version, _, _ in rows(data, "rows", str, str, str, str)}
    listed |= dict(rows(data, "others", str, str))
    facts = {key: value for key, value in record.identity.items() if key != "service_tag"}
    training = (exhibit(record, "resnet50") or {}).get("identity")
    software = {"training": training} if isinstance(training, str) and training else {}
    return facts | {"platform": record.run.platform, "harness": record.run.harness} | listed | software


def _differences(by_run: Iterable[Mapping[str, str]]) -> Iterable[Difference]:
    known = list(by_run)
    for name in dict.fromkeys(name for facts in known for name in facts):
        values = tuple(facts.get(name, "") for facts in known)
        if len(set(values)) > 1:
            yield Difference(name, values)


def _parts(records: Sequence[Record], *, one: bool) -> Iterable[Difference]:
    """Slot by slot. Between units serial numbers always differ and say nothing; a part that was not seen has no version."""
    known = [_known_parts(record) for record in records]
    places = {part.serial: slot for slot, part in known[0].items() if part.serial}
    for slot in sorted({slot for parts in known for slot in parts}, key=natural):
        for word in _PART_WORDS if one else tuple(word for word in _PART_WORDS if word != "serial"):
            values = tuple(getattr(parts.get(slot), word, "") for parts in known)
            is_serial = word == "serial"
            if len({value for value in values if is_serial or value}) > 1:
                yield Difference(f"{slot} {word.replace('_', ' ')}", values, _move(values, slot, places) if is_serial else "")


def _move(serials: Sequence[str], slot: str, before: Mapping[str, str]) -> str:
    """What became of a slot from the first run to the last; where its part was then."""
    first, last = serials[0], serials[-1]
    if first == last:
        unseen = [str(number) for number, serial in enumerate(serials, start=1) if not serial]
        return f"not seen in run {', '.join(unseen)}" if unseen else "changed and back"
    if not last:
        return "not seen any more"
    origin = before.get(last, "")
    return f"moved here from {origin}" if origin and origin != slot else "another part" if first else "not seen before"


def _known_parts(record: Record) -> dict[str, Part]:
    """The parts by slot, each as it was last known; uplinks and pairs have no identity of their own."""
    found = {each.part.slot: each.part for each in record.measurements if each.part is not None and _is_identified(each.part)}
    slots = {plan.slot for plan in record.planned if plan.slot}
    for slot in slots - set(found):
        found[slot] = Part(slot)
    return found


def _is_identified(part: Part) -> bool:
    return bool(part.serial or part.model or part.firmware or part.part_number)


def _outcomes(records: Sequence[Record]) -> Iterable[Difference]:
    """Cases that ended otherwise; checks that changed in the same way in the same slots are one difference."""
    ended = [{case.id: case.outcome for case in record.cases} for record in records]
    by_check: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for case in dict.fromkeys(case for cases in ended for case in cases):
        values = tuple(cases[case].value if case in cases else "no such case" for cases in ended)
        if len(set(values)) > 1:
            check, _, slot = case.partition("[")
            by_check.setdefault((check, values), []).append(slot.removesuffix("]"))
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (check, values), slots in by_check.items():
        alike.setdefault((values, ", ".join(filter(None, slots))), []).append(check)
    found = [Difference(", ".join(checks), values, where, is_worse=_is_worse(values)) for (values, where), checks in alike.items()]
    return sorted(found, key=lambda difference: not difference.is_worse)


def _is_worse(outcomes: Sequence[str]) -> bool:
    """True where a later run failed and the first did not."""
    bad = ("failed", "error", "fail")
    return outcomes[0] not in bad and any(outcome in bad for outcome in outcomes[1:])


def _measurements(records: Sequence[Record]) -> tuple[list[Difference], int]:
    taken = [
        {_key(each): each for each in record.measurements if each.value is not None and each.name not in _ONCE}
        for record in records
    ]
    by_name: dict[str, list[tuple[str, str]]] = {}
    for key in taken[0]:
        if any(key in other for other in taken[1:]):
            by_name.setdefault(key[0], []).append(key)
    found: list[Difference] = []
    for keys in by_name.values():
        found += _moved_together(keys, taken)
    found.sort(key=lambda difference: not difference.is_worse)
    return found, sum(map(len, by_name.values()))


def _key(measurement: MeasurementRecord) -> tuple[str, str]:
    return measurement.name, measurement.part.slot if measurement.part is not None else ""


def _moved_together(
    keys: Sequence[tuple[str, str]], taken: Sequence[Mapping[tuple[str, str], MeasurementRecord]]
) -> list[Difference]:
    """The measurements of one name that moved, in any of the later runs."""
    first, found = taken[0], {}
    for number, later in enumerate(taken[1:], start=2):
        here = [key for key in keys if key in later]
        changes = {key: change for key in here if (change := _change(first[key], later[key])) is not None}
        middle = median(changes.values()) if changes else 0.0
        far = _noise(list(changes.values()), middle)
        if len(changes) >= _MANY and abs(middle) > _LEAST_NOISE and abs(middle) > far / 5:
            name = f"{keys[0][0]}, all {len(changes)}"
            found[name] = Difference(name, tuple(_middle(run, here) for run in taken), f"run {number}: together {middle:+.1%}")
        for key in here:
            change = changes.get(key)
            is_far = (
                first[key].value != later[key].value
                if change is None
                else abs(change - (middle if len(changes) >= _MANY else 0.0)) > far
            )
            if is_far:
                found[" ".join(key)] = _difference(key, taken, "" if change is None else f"run {number}: {change:+.1%}")
    return list(found.values())


def _noise(changes: Sequence[float], middle: float) -> float:
    """The relative change from which on it is one."""
    if len(changes) < _MANY:
        return _FEW_NOISE
    return max(_LEAST_NOISE, _FAR * median(abs(change - middle) for change in changes))


def _change(before: MeasurementRecord, after: MeasurementRecord) -> float | None:
    """The relative change of a number; None for words, and from or to nothing, which are compared as they are."""
    old, new = before.value, after.value
    if isinstance(old, bool | str) or isinstance(new, bool | str) or old is None or new is None or not old or not new:
        return None
    return (new - old) / abs(old)


def _middle(taken: Mapping[tuple[str, str], MeasurementRecord], keys: Iterable[tuple[str, str]]) -> str:
    there = [taken[key] for key in keys if key in taken]
    figures = [each.value for each in there if isinstance(each.value, int | float) and not isinstance(each.value, bool)]
    if not figures:
        return ""
    (figure,), unit = amount(round(median(figures), 3), unit=there[0].unit)
    return f"median {figure} {unit}".rstrip()


def _difference(key: tuple[str, str], taken: Sequence[Mapping[tuple[str, str], MeasurementRecord]], remark: str) -> Difference:
    name, slot = key
    runs = [run.get(key) for run in taken]
    values = tuple("" if each is None else f"{each.shown}{_mark(each)}" for each in runs)
    outcomes = ["" if each is None else each.outcome.value for each in runs]
    return Difference(f"{slot} {name}".strip(), values, remark, is_worse=_is_worse(outcomes))


def _mark(measurement: MeasurementRecord) -> str:
    return {Outcome.FAIL: " ✗", Outcome.MARGINAL: " ~"}.get(measurement.outcome, "")


def tell(comparison: Comparison, *, most: int = 30) -> str:
    """The comparison as lines for a terminal."""
    lines = [comparison.subject]
    for number, (name, started, verdict, source) in enumerate(comparison.runs, start=1):
        lines.append(f"  {number}  {name}  {started}  {verdict}  ({source})")
    for name, nothing, differences in comparison.sections:
        lines += ["", f"{name}: {nothing}" if not differences else name]
        for each in differences[:most]:
            values = " -> ".join(value or "-" for value in each.values)
            lines.append(f"  {'WORSE ' if each.is_worse else ''}{each.what}: {values}{f'  ({each.remark})' if each.remark else ''}")
        if len(differences) > most:
            lines.append(f"  ... and {len(differences) - most} more on the page")
    return "\n".join(lines) + "\n"


def render_comparison(comparison: Comparison) -> str:
    """The comparison as one self-contained page."""
    from harness.report.page import render

    return render("comparison.html.j2", comparison=comparison)
