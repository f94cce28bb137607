"""``bringup bios``: show, diff, plan, apply, clear, export and compare the BIOS settings of a bench.

exit status     0 as wanted or done · 1 differs (also what --no-reboot leaves to be set after the boot), or the product failed
                2 usage · 3 the bench failed
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.attributes import read_attributes, read_unit, write_unit
from harness.cli.documents import check_target
from harness.cli.machine import Machine, Wish, opened
from harness.cli.streams import Lines, complain
from harness.clock import wall_time
from harness.devices.bios_registry import Registry
from harness.devices.idrac_facts import BiosState
from harness.errors import BenchError, Blame, RedfishError, Unreadable, UsageMistake
from harness.limits import Limit
from harness.platform import Platform
from harness.procedures.bios.bring import REST, look
from harness.procedures.bios.change import Changed, change_bios
from harness.procedures.bios.conflict import parse_conflict
from harness.procedures.bios.danger import check_dangers
from harness.procedures.bios.discard import Choice, discard
from harness.procedures.bios.outline import outline
from harness.procedures.bios.plan import differing, nearest
from harness.procedures.bios.post import forbidden
from harness.procedures.bios.settings import Kind, Unit, compare, take_unit
from harness.procedures.bios.story import BiosStory
from harness.secret import NOT_SHOWN

FAILED, BROKEN = 1, 3


@dataclass(frozen=True)
class Page:
    """What a command says, and its exit status."""

    lines: Sequence[str]
    status: int = 0


def show(bench: str, names: Sequence[str], faults: Sequence[str]) -> Page:
    """Each setting now, what is pending for it, and what it may be set to. Raises UsageMistake for an unknown name."""
    with opened(Wish(bench, faults=faults)) as machine:
        idrac = machine.idrac.located()
        state, registry = idrac.bios(), _registry(machine)
        for name in names:
            if name not in state.attributes:
                near = nearest(name, state.attributes)
                raise UsageMistake(f"this BIOS shows no {name}{f'; did you mean {near!r}?' if near else ''}")
        lines = [machine.headline("BIOS settings")]
        lines += [_row(name, state, registry) for name in names or sorted(state.attributes)]
        if strays := sorted(set(state.pending) - set(state.attributes)):
            lines.append(f"pending for what this BIOS does not show: {', '.join(strays)}")
        return Page(lines)


def diff(bench: str, attributes: Path | None, faults: Sequence[str]) -> Page:
    """What differs from what is wanted. Exit status 1 where anything does."""
    wanted = None if attributes is None else read_attributes(attributes)
    with opened(Wish(bench, faults=faults)) as machine:
        platform = _wanting(machine.platform, wanted)
        state = machine.idrac.located().bios()
        wrong = differing(state.attributes, platform.bios.attributes)
        lines = [machine.headline("BIOS differences")]
        for name, limit in wrong.items():
            now = state.attributes.get(name)
            pending = f", pending {state.pending[name]}" if name in state.pending else ""
            lines.append(f"{name}: {'not shown by this BIOS' if now is None else now}, wanted {limit}{pending}")
        count = len(platform.bios.attributes)
        lines.append(f"{len(wrong)} of {count} settings differ" if wrong else f"all {count} settings are as wanted")
        return Page(lines, FAILED if wrong else 0)


def plan(bench: str, attributes: Path | None, danger: Sequence[str], faults: Sequence[str]) -> Page:
    """What applying would do. Touches nothing. Exit status 0 as it is, 1 where something would change or cannot."""
    check_dangers(danger)
    wanted = None if attributes is None else read_attributes(attributes)
    with opened(Wish(bench, danger=frozenset(danger), faults=faults)) as machine:
        platform = _wanting(machine.platform, wanted)
        story = look(machine.idrac.located(), platform, machine.consent, host=machine.host, every=True)
        lines = outline(story, platform.boot, has_fabric=machine.fabric is not None and machine.bench.fabric is None)
        return Page([machine.headline("BIOS plan"), *lines], 0 if story.plan.is_empty else FAILED)


@dataclass(frozen=True)
class Application:
    """What ``apply`` was asked for."""

    bench: str
    attributes: Path | None = None
    danger: Sequence[str] = ()
    faults: Sequence[str] = ()
    restarts: bool = True
    on_conflict: str = "refuse"
    assume_free: bool = False
    steal_lock: str = ""
    reports: Path = Path("reports")


def apply(asked: Application, said: Lines) -> Page:
    """Bring the settings about. The hand-over line is said at every end, Ctrl-C included. ``said`` tells what is known before."""
    check_dangers(asked.danger)
    conflict = parse_conflict(asked.on_conflict)
    wanted = None if asked.attributes is None else read_attributes(asked.attributes)
    wish = Wish(
        asked.bench,
        writes=True,
        danger=frozenset(asked.danger),
        assume_free=asked.assume_free,
        steal_lock=asked.steal_lock,
        faults=asked.faults,
    )
    with opened(wish) as machine:
        platform = _wanting(machine.platform, wanted)
        said.put(machine.headline("BIOS apply"))
        if kept := _keep_what_was(machine, platform, asked.reports):
            said.put(f"settings as they are now: {kept} (bringup rescue --restore takes it)")
        changed = change_bios(
            machine.idrac,
            platform,
            machine.consent,
            machine.handover,
            expected_tag=machine.tag,
            host=machine.host,
            restarts=asked.restarts,
            conflict=conflict,
        )
        if asked.attributes is not None and not changed.story.earlier and (mistakes := changed.story.plan.mistakes):
            told = "; ".join(f"{mistake.attribute}: {mistake.reason}" for mistake in mistakes)
            raise UsageMistake(f"{asked.attributes}: {told}; nothing was changed")
        return Page(_told(machine, platform, changed, asked), _status(machine, platform, changed, asked))


@dataclass(frozen=True)
class Clearance:
    """What ``clear`` was asked for: ``names`` of others' pending values and the waiting ``job`` that are to go too."""

    bench: str
    names: Sequence[str] = ()
    job: str = ""
    attributes: Path | None = None
    faults: Sequence[str] = ()
    assume_free: bool = False
    steal_lock: str = ""


def clear(asked: Clearance) -> Page:
    """Take pending values away: those that are wanted here anyway, and those that are named. One request clears all of them.

    Raises as ``discard`` does.
    """
    wanted = None if asked.attributes is None else read_attributes(asked.attributes)
    wish = Wish(asked.bench, writes=True, assume_free=asked.assume_free, steal_lock=asked.steal_lock, faults=asked.faults)
    with opened(wish) as machine:
        headline = machine.headline("BIOS clear")
        choice = Choice(
            _wanting(machine.platform, wanted).bios.attributes,
            asked.names,
            asked.job,
            f"bringup bios clear --bench {shlex.quote(asked.bench)}",
            asked.assume_free,
        )
        gone = discard(machine.idrac.located(), choice, machine.handover, expected_tag=machine.tag, host=machine.host)
        told = [f"deleted {each}" for each in gone.jobs] + [
            f"cleared {name} ({value})" for name, value in sorted(gone.values.items())
        ]
        return Page([headline, *told, "nothing is pending", _handed_over(machine)])


def export(bench: str, file: Path, faults: Sequence[str], *, force: bool) -> Page:
    """Write the settings of a bench to a file, without secrets."""
    check_target(file, force=force)
    with opened(Wish(bench, faults=faults)) as machine:
        unit = _unit_of(machine)
        write_unit(unit, file, force=force)
        left_out = f"; left out as secrets: {', '.join(unit.redacted)}" if unit.redacted else ""
        return Page([machine.headline("BIOS export"), f"wrote {len(unit.values)} settings to {file}{left_out}"])


def compare_units(names: Sequence[str]) -> Page:
    """Exports and benches beside each other. Exit status 1 where settings differ; identity and state may."""
    if len(names) < 2:
        raise UsageMistake("bringup bios compare takes two benches or exports, or more")
    units = [_read(name) for name in names]
    repeated = [unit.name for unit in units if [each.name for each in units].count(unit.name) > 1]
    if repeated:
        units = [replace(unit, name=name) for unit, name in zip(units, names, strict=True)]
    found = compare(units)
    lines = [f"BIOS settings of {', '.join(f'{unit.name} ({_who(unit)})' for unit in units)}"]
    for kind in Kind:
        differences = [each for each in found if each.kind is kind]
        if differences:
            lines += [f"{kind.value}{'s' * (kind is Kind.SETTING)} that differ:", *(f"  {each}" for each in differences)]
    settings = sum(each.kind is Kind.SETTING for each in found)
    lines.append(f"{settings} settings differ" if settings else "all settings are the same")
    return Page(lines, FAILED if settings else 0)


def _read(name: str) -> Unit:
    if name.endswith(".json"):
        return read_unit(Path(name))
    with opened(Wish(name)) as machine:
        return _unit_of(machine)


def _unit_of(machine: Machine) -> Unit:
    idrac = machine.idrac.located()
    system, manager, root = idrac.system(), idrac.manager(), idrac.root()
    identity = {
        "service_tag": system.service_tag,
        "model": system.model,
        "bios": system.bios_version,
        "idrac": manager.firmware_version,
        "source": root.simulated or machine.source,
    }
    return take_unit(machine.bench.name, identity, idrac.bios(), _registry(machine))


def _who(unit: Unit) -> str:
    shown = (unit.identity.get(key, "") for key in ("service_tag", "model", "bios", "source"))
    return ", ".join(word for word in shown if word) or "unknown"


def _registry(machine: Machine) -> Registry:
    """The registry, or none and a line about it: what is shown then lacks the choices."""
    try:
        return machine.idrac.registry()
    except (RedfishError, Unreadable) as error:
        complain(f"the attribute registry cannot be read, so choices are not told: {error}")
        return Registry()


def _row(name: str, state: BiosState, registry: Registry) -> str:
    is_secret = registry.is_password(name)
    value, staged = (
        NOT_SHOWN if is_secret and values.get(name) else values.get(name) for values in (state.attributes, state.pending)
    )
    pending = f"  pending: {staged}" if name in state.pending else ""
    return f"{name} = {value}{pending}{_choices(name, state, registry)}"


def _choices(name: str, state: BiosState, registry: Registry) -> str:
    attribute = registry.attributes.get(name)
    if attribute is None:
        return ""
    if registry.is_read_only(name, state.attributes, state.attributes) or attribute.is_read_only:
        rule = registry.lock(name, state.attributes)
        return f"  (read-only{f' while {rule.reason()}' if rule else ''})"
    if attribute.choices:
        return f"  ({' | '.join(registry.choices(name, state.attributes))})"
    return f"  ({attribute.low} to {attribute.high})" if attribute.type == "Integer" else ""


def _wanting(platform: Platform, wanted: dict[str, Limit] | None) -> Platform:
    """The platform with a one-off set in the place of its own settings."""
    if wanted is None:
        return platform
    return platform.model_copy(update={"bios": platform.bios.model_copy(update={"attributes": wanted})})


def _keep_what_was(machine: Machine, platform: Platform, reports: Path) -> Path | None:
    """Keep all settings as they are before the first of them is changed, in the form that ``bringup rescue --restore`` takes.

    Returns the file, None where nothing will be changed. A BIOS update or a cleared NVRAM wipes settings in the middle
    (findbugzero.com, Dell 399964). Raises UsageMistake where the folder cannot be written.
    """
    if not differing(machine.idrac.located().bios().attributes, platform.bios.attributes):
        return None
    file = reports / f"bios-before-{wall_time():%Y%m%d-%H%M%S}-{machine.bench.name}.json"
    try:
        reports.mkdir(parents=True, exist_ok=True)
        check_target(file, force=True)
    except (OSError, UsageMistake) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageMistake(f"cannot keep the settings as they are in {file}: {why}; nothing was changed") from None
    write_unit(_unit_of(machine), file, force=True)
    return file


def _told(machine: Machine, platform: Platform, changed: Changed, asked: Application) -> list[str]:
    story = changed.story
    if story.stop is not None:
        done = [f"{line}, by boot {number}" for number, each in enumerate(story.earlier, 1) for line in _effects(each)]
        title = f"not {'finished' if story.earlier else 'applied'} ({story.stop.check}):"
        return [*done, title, *(f"  {line}" for line in story.stop.text.splitlines()), _handed_over(machine)]
    is_at_work = bool(story.writes) or story.is_resumed
    if not is_at_work and not story.earlier:
        return [f"all {len(platform.bios.attributes)} settings are as wanted; no write was sent", _handed_over(machine)]
    stories = (*story.earlier, story) if is_at_work else story.earlier
    if not asked.restarts:
        changes = (change for each in stories for change in each.plan.changes)
        lines = [f"{change.attribute}: {change.current} -> {change.target}, once the host restarts" for change in changes]
    else:
        lines = [line for each in stories for line in _effects(each)]
    jobs = [str(each.job) for each in stories if each.job is not None]
    took = f"; {story.after.at - stories[0].history[0].at:.0f} s until read back" if story.after and stories[0].history else ""
    lines.append(f"by {'; '.join(jobs)}{took}")
    lines += [f"warning: {warning}" for warning in dict.fromkeys(each for one in stories for each in _warnings(one))]
    lines += changed.proof
    if asked.restarts:
        lines.append("read back as wanted, no BIOS job is left, nothing is pending")
    if found := forbidden(story, platform.bios.forbidden_events):
        told = "; ".join(f"{event} {event.text}".rstrip() for event in found)
        how = "but" if _is_held_to_events(asked) else "warning:"
        lines.append(f"{how} the start with them logged what platform {platform.name} forbids: {told}")
    return [*lines, *(f"not yet: {rest}" for rest in _remaining(machine)), _handed_over(machine)]


def _effects(story: BiosStory) -> list[str]:
    """What came of one attempt, a line a setting."""
    return [f"{change.attribute}: {change.current} -> {story.values.get(change.attribute)}" for change in story.plan.changes]


def _warnings(story: BiosStory) -> Sequence[str]:
    return (*story.plan.warnings, *story.preflight.warnings)


def _remaining(machine: Machine) -> list[str]:
    """What a boot that is still to come leaves to be set."""
    return [each.text for each in machine.handover.left if each.key == REST]


def _handed_over(machine: Machine) -> str:
    return f"hand-over: {machine.handover.line()}"


def _is_held_to_events(asked: Application) -> bool:
    """The platform's own settings are to start without what it forbids; a one-off set promises nothing of the rest."""
    return asked.attributes is None


def _status(machine: Machine, platform: Platform, changed: Changed, asked: Application) -> int:
    """What remains after a boot that is still to come differs all the same; a start that logs what is forbidden is no good one."""
    stop = changed.story.stop
    if stop is not None:
        return BROKEN if stop.blame is Blame.BENCH or isinstance(stop.error, BenchError) else FAILED
    is_bad_start = _is_held_to_events(asked) and forbidden(changed.story, platform.bios.forbidden_events)
    return FAILED if _remaining(machine) or is_bad_start else 0
