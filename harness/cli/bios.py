"""``bringup bios``: show, diff, plan, apply, clear, export and compare the BIOS settings of a bench.

exit status     0 as wanted or done · 1 differs, or the product failed · 2 usage · 3 the bench failed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.attributes import read_attributes, read_unit, write_unit
from harness.cli.machine import Machine, Wish, opened
from harness.cli.streams import complain
from harness.cli.streams import show as put
from harness.clock import wall_time
from harness.devices.bios_registry import Registry
from harness.devices.idrac_facts import BiosState
from harness.devices.jobs import Job
from harness.errors import BenchError, Blame, DeviceError, OwnershipError, RedfishError, Unreadable, UsageMistake
from harness.limits import Limit, Value
from harness.platform import Platform
from harness.procedures.bios.bring import look
from harness.procedures.bios.change import Changed, change_bios
from harness.procedures.bios.conflict import parse_conflict
from harness.procedures.bios.danger import check_dangers
from harness.procedures.bios.outline import outline
from harness.procedures.bios.plan import differing, nearest
from harness.procedures.bios.preflight import foreign_values
from harness.procedures.bios.settings import Kind, Unit, compare, take_unit
from harness.procedures.boot.post import sight

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
        lines = outline(story, platform.boot, has_fabric=machine.fabric is not None)
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


def apply(asked: Application) -> Page:
    """Bring the settings about. The hand-over line is said at every end, Ctrl-C included."""
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
        put(machine.headline("BIOS apply") + "\n")
        _keep_what_was(machine, platform, asked.reports)
        _follow_post(machine)
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
        if asked.attributes is not None and (mistakes := changed.story.plan.mistakes):
            told = "; ".join(f"{mistake.attribute}: {mistake.reason}" for mistake in mistakes)
            raise UsageMistake(f"{asked.attributes}: {told}; nothing was changed")
        return Page(_told(machine, platform, changed, asked), _status(changed))


def clear(bench: str, names: Sequence[str], job: str, attributes: Path | None, faults: Sequence[str]) -> Page:
    """Take pending values away: those that are wanted here anyway, and those that are named. One request clears all of them.

    Raises OwnershipError where somebody else's would go too, or where a job waits that was not named.
    """
    wanted = None if attributes is None else read_attributes(attributes)
    with opened(Wish(bench, writes=True, faults=faults)) as machine:
        idrac = machine.idrac.located()
        headline = machine.headline("BIOS clear")
        idrac.insist_on(machine.tag)
        pending = idrac.bios().pending
        _refuse_foreign(pending, names, _wanting(machine.platform, wanted).bios.attributes)
        jobs = _deletable(idrac.jobs(), job, pending)
        if not pending and not jobs:
            return Page([headline, "nothing is pending", f"hand-over: {machine.handover.line()}"])
        listed = ", ".join([*(each.id for each in jobs), *sorted(pending)])
        machine.handover.leave("clear", f"{listed} may be there still", "bringup bios clear")
        for each in jobs:
            idrac.delete_job(each.id)
        if pending:
            idrac.clear_pending()
        if left := idrac.bios().pending:
            raise DeviceError(f"{', '.join(sorted(left))} stay pending although they were cleared")
        machine.handover.clear("clear")
        told = [f"deleted {each.id}" for each in jobs] + [f"cleared {name} ({value})" for name, value in sorted(pending.items())]
        return Page([headline, *told, "nothing is pending", f"hand-over: {machine.handover.line()}"])


def _deletable(queue: Sequence[Job], named: str, pending: Mapping[str, Value | None]) -> list[Job]:
    """The waiting BIOS job that was named. Raises OwnershipError for one that was not, and while any job is at work."""
    active = [each for each in queue if each.is_active]
    jobs = [each for each in active if each.is_bios]
    at_work = next((each for each in active if each.is_running), None)
    if at_work is not None and (jobs or pending):
        raise OwnershipError(f"{at_work} is at work and must not be cut off; nothing was taken away")
    for each in jobs:
        if each.id != named:
            raise OwnershipError(f"{each} waits; name it with --job {each.id}; nothing was taken away")
    if named and not jobs:
        raise OwnershipError(f"{named} is no BIOS job that waits; nothing was taken away")
    return jobs


def export(bench: str, file: Path, faults: Sequence[str], *, force: bool) -> Page:
    """Write the settings of a bench to a file, without secrets."""
    if file.exists() and not force:
        raise UsageMistake(f"{file} exists; --force overwrites it")
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
    pending = f"  pending: {state.pending[name]}" if name in state.pending else ""
    return f"{name} = {state.attributes[name]}{pending}{_choices(name, state, registry)}"


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


def _refuse_foreign(pending: Mapping[str, Value | None], names: Sequence[str], wanted: Mapping[str, Limit]) -> None:
    own = {name: limit.bounds[0] for name, limit in wanted.items() if limit.kind == "exactly"}
    foreign = sorted(set(foreign_values(pending, own)) - set(names))
    if foreign:
        raise OwnershipError(
            f"somebody else staged {', '.join(foreign)}, and clearing takes all pending values away; name them to clear them too: "
            f"bringup bios clear {' '.join(foreign)}"
        )


def _follow_post(machine: Machine) -> None:
    """Show the POST stage beside the job: one more read each time the job is looked at."""
    tell = machine.clock.progress
    idrac = machine.idrac.located()

    def with_post(what: str, seconds: float, seen: object) -> None:
        if what.startswith("JID_") and tell is not None:
            with suppress(BenchError, DeviceError):
                seen = f"{seen}; {sight(idrac.lc_status(), idrac.system())}"
        if tell is not None:
            tell(what, seconds, seen)

    machine.clock.progress = with_post


def _keep_what_was(machine: Machine, platform: Platform, reports: Path) -> None:
    """Keep all settings as they are before the first of them is changed, in the form that ``bringup rescue --restore`` takes.

    A BIOS update or a cleared NVRAM wipes settings in the middle (findbugzero.com, Dell 399964). Raises UsageMistake where the
    folder cannot be written.
    """
    if not differing(machine.idrac.located().bios().attributes, platform.bios.attributes):
        return
    file = reports / f"bios-before-{wall_time():%Y%m%d-%H%M%S}-{machine.bench.name}.json"
    try:
        reports.mkdir(parents=True, exist_ok=True)
        write_unit(_unit_of(machine), file, force=True)
    except OSError as error:
        raise UsageMistake(f"cannot keep the settings as they are in {file}: {error.strerror}; nothing was changed") from None
    put(f"settings as they are now: {file} (bringup rescue --restore takes it)\n")


def _told(machine: Machine, platform: Platform, changed: Changed, asked: Application) -> list[str]:
    story = changed.story
    handover = f"hand-over: {machine.handover.line()}"
    if story.stop is not None:
        return [f"not applied ({story.stop.check}):", *(f"  {line}" for line in story.stop.text.splitlines()), handover]
    is_at_work = bool(story.writes) or story.is_resumed
    if not is_at_work and not story.earlier:
        return [f"all {len(platform.bios.attributes)} settings are as wanted; no write was sent", handover]
    stories = (*story.earlier, story) if is_at_work else story.earlier
    lines = [
        f"{change.attribute}: {change.current} -> {each.values.get(change.attribute)}"
        if asked.restarts
        else f"{change.attribute}: {change.current} -> {change.target}, once the host restarts"
        for each in stories
        for change in each.plan.changes
    ]
    jobs = [str(each.job) for each in stories if each.job is not None]
    took = f"; {story.after.at - stories[0].history[0].at:.0f} s until read back" if story.after and stories[0].history else ""
    lines.append(f"by {'; '.join(jobs)}{took}")
    lines += changed.proof
    if asked.restarts:
        lines.append("read back as wanted, no BIOS job is left, nothing is pending")
    return [*lines, handover]


def _status(changed: Changed) -> int:
    stop = changed.story.stop
    if stop is None:
        return 0
    return BROKEN if stop.blame is Blame.BENCH or isinstance(stop.error, BenchError) else FAILED
