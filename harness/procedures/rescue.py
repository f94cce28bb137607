"""The rescue ladder for a machine that does not start any more: each rung is shown before it is taken.

evidence ─▶ off ─▶ detach ─┬─▶ bare ─▶ restore        a host that cannot POST runs no job that would restore it,
                           └─ no fabric: hands         so first what keeps it from starting has to go; a job that waits
                                                       runs in the bare start, and restore puts old settings back after it

What is wrong is judged first: a machine that starts, or is through, is not rescued. Ladder and reasons: an R740 whose UEFI0256 loop
died before the Lifecycle Controller was there, so that only taking the GPUs out helped (server.vpnwp.com).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.consent import Consent
from harness.devices.console import Console
from harness.devices.fabric import Fabric, FabricPart
from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LogEntry
from harness.devices.jobs import Job
from harness.errors import BenchError, BringupError, DeviceError, TapeError, Timeout
from harness.limits import Limit
from harness.platform import Boot, Platform
from harness.procedures.bios.change import change_bios
from harness.procedures.boot.post import LOOPS, RESTARTS, Sight, sight
from harness.procedures.boot.watch import Watch
from harness.procedures.handover import Handover
from harness.procedures.host_state import ATTENDED
from harness.procedures.power import Wanted, send_reset
from harness.procedures.screen import take_screen

EVIDENCE, OFF, DETACH, BARE, RESTORE = "evidence", "off", "detach", "bare", "restore"
KEY = "rescue"
"""The key under which the hand-over knows what a rescue leaves."""

ASKED = frozenset({"SYS1000", "RAC0701", "RAC0702", "RAC0703"})
"""Lifecycle-log ids of a start that somebody asked for: on, power cycle, reset (EEMI registry 2.9.0)."""

LOOKED_BACK = 60
"""Entries of the Lifecycle log that tell how the last starts went."""

SWITCHING = 120.0
"""Seconds for a host to be off after ForceOff."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: what it does. ``needs_hands`` says why nothing here can do it, empty where it can."""

    name: str
    text: str
    needs_hands: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}{f': hands are needed, {self.needs_hands}' if self.needs_hands else ''}"


@dataclass(frozen=True)
class Trouble:
    """How it stands. ``wrong`` says what is wrong, empty where nothing is to be rescued; ``parts`` are the GPUs of this machine."""

    sight: Sight
    wrong: str
    jobs: tuple[Job, ...] = ()
    events: tuple[LogEntry, ...] = ()
    parts: tuple[FabricPart, ...] = ()

    @property
    def running(self) -> Job | None:
        """The job at work, which a reset would cut off."""
        return next((job for job in self.jobs if job.is_running), None)


@dataclass(frozen=True)
class Evidence:
    """What is kept before anything is changed: file name and content."""

    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """The machine to rescue: ``tag`` the only one that may be written to, ``owner`` its name in the fabric.

    ``is_bare`` says that somebody has already taken the GPUs away by hand. ``restore`` are the settings to put back once it runs.
    """

    idrac: Idrac
    console: Console | None
    fabric: Fabric | None
    platform: Platform
    consent: Consent
    handover: Handover
    tag: str
    owner: str
    is_bare: bool = False
    restore: Mapping[str, Limit] = field(default_factory=dict)

    @property
    def limits(self) -> Boot:
        """How long a start may take."""
        return self.platform.boot


def survey(scene: Scene) -> Trouble:
    """Say what is wrong, without touching anything. A start that only takes long is watched for as long as it may take.

    Raises BenchError where another machine answers, and what the reads raise.
    """
    idrac = scene.idrac
    idrac.insist_on(scene.tag)
    mark = idrac.lc_mark()
    events = idrac.lc_log(max(0, mark.number - LOOKED_BACK)) if mark else ()
    seen = sight(idrac.lc_status(), idrac.system())
    loops = _loops(events)
    if seen.is_through:
        wrong = ""
    elif seen.is_halted:
        wrong = f"POST stopped and waits for a key ({seen})"
    elif seen.server in ATTENDED:
        raise BenchError(f"somebody is at the host ({seen}); let them finish")
    elif seen.power == "Off":
        wrong = f"it is off after it restarted {loops} times with {_ids(events)}" if loops > 1 else ""
    elif loops > 1:
        wrong = f"it restarts for ever: {loops} times {_ids(events)} since it was switched on ({seen})"
    else:
        seen, wrong = _watch_start(scene, seen)
    jobs = tuple(job for job in idrac.jobs() if job.is_active)
    return Trouble(seen, wrong, jobs, events, _own_parts(scene))


def ladder(scene: Scene, trouble: Trouble) -> tuple[Rung, ...]:
    """The rungs in order, as they stand. Pure."""
    if not trouble.wrong:
        return ()
    off = "" if trouble.running is None else f"{trouble.running} is at work and must not be cut off: wait for it"
    rungs = [Rung(EVIDENCE, "save the screen, the Lifecycle log, the console's last lines, jobs and settings; changes nothing")]
    if trouble.sight.power != "Off":
        rungs.append(Rung(OFF, f"ForceOff of {scene.tag}; what runs on it is lost", off))
    rungs += [_detaching(scene, trouble), Rung(BARE, f"power {scene.tag} on without GPUs and watch it start", _not_bare(scene))]
    if scene.restore:
        count = len(scene.restore)
        how = "a BIOS job and a restart, still bare"
        rungs.append(Rung(RESTORE, f"put {count} setting{'s' * (count != 1)} back where they differ: {how}"))
    return tuple(rungs)


def take(scene: Scene, rung: Rung, trouble: Trouble) -> str:
    """Take one rung and say what came of it. Raises BringupError where it did not do what it should."""
    if rung.needs_hands:
        raise BenchError(f"{rung.name}: hands are needed, {rung.needs_hands}")
    match rung.name:
        case "off":
            return _switch_off(scene, trouble)
        case "detach":
            return _detach(scene, trouble)
        case "bare":
            return _start_bare(scene, trouble)
        case "restore":
            return _restore(scene)
    raise DeviceError(f"no rung {rung.name!r}")


def save_evidence(scene: Scene, trouble: Trouble) -> Evidence:
    """Everything that can be read of the trouble; what cannot be had is told in its file."""
    idrac = scene.idrac
    files = {
        "lc-log.txt": "\n".join(f"{event} {event.severity} {event.text}" for event in trouble.events).encode(),
        "jobs.txt": "\n".join(map(str, trouble.jobs)).encode() or b"no active job",
        "state.txt": f"{trouble.sight}\n{trouble.wrong}".encode(),
    }
    screen = take_screen(idrac, with_video=True)
    files |= {"screen.png": screen.image} if screen.image else {"screen.txt": screen.lacking.encode()}
    if screen.video:
        files["boot-video.txt"] = "\n".join(screen.told).encode()
    files |= _settings(idrac)
    if scene.console is not None:
        with suppress(BenchError):
            files["console.txt"] = scene.console.drain().data[-65536:]
    return Evidence(files)


def _settings(idrac: Idrac) -> dict[str, bytes]:
    """The settings in effect and pending, or why they cannot be read."""
    try:
        state = idrac.bios()
    except TapeError:
        raise
    except BringupError as error:
        return {"settings.txt": str(error).encode()}
    lines, pending = (
        [f"{name} = {value}" for name, value in sorted(values.items())] for values in (state.attributes, state.pending)
    )
    return {"settings.txt": "\n".join((*lines, "", "pending:", *(pending or ["nothing"]))).encode()}


def _watch_start(scene: Scene, seen: Sight) -> tuple[Sight, str]:
    """A machine in POST that nothing shows to be stuck: let it move, and call it stuck where it does not."""
    idrac = scene.idrac
    places = [seen]

    def look() -> Sight:
        now = sight(idrac.lc_status(), idrac.system())
        if not now.same_place(places[-1]):
            places.append(now)
        return now

    def is_over(now: Sight) -> bool:
        return now.is_through or now.is_halted or idrac.clock.now() - places[-1].at >= scene.limits.no_progress

    try:
        last = idrac.clock.until(look, is_over, what="the start to go on", every=15, within=scene.limits.within)
    except Timeout:
        return places[-1], f"it does not come to an end of POST, now {places[-1]}"
    if last.is_through:
        return last, ""
    return last, f"POST stopped and waits for a key ({last})" if last.is_halted else f"POST stands still ({last})"


def _loops(events: Sequence[LogEntry]) -> int:
    """How often it went round since it was switched on by somebody."""
    return sum(event.message_id in LOOPS for event in _since_start(events))


def _since_start(events: Sequence[LogEntry]) -> Sequence[LogEntry]:
    last = max((number for number, event in enumerate(events) if event.message_id in ASKED), default=-1)
    return events[last + 1 :]


def _ids(events: Sequence[LogEntry]) -> str:
    return ", ".join(sorted({event.message_id for event in _since_start(events)} & LOOPS))


def _own_parts(scene: Scene) -> tuple[FabricPart, ...]:
    """The GPUs that the fabric has given to this machine, and no others; none where nobody can be asked."""
    if scene.fabric is None:
        return ()
    return tuple(part for part in scene.fabric.parts() if part.owner == scene.owner)


def _detaching(scene: Scene, trouble: Trouble) -> Rung:
    if scene.is_bare:
        return Rung(DETACH, "nothing: the GPUs were taken away by hand")
    if scene.fabric is None:
        return Rung(
            DETACH,
            "take the GPUs away while the host is off",
            "no fabric is reached from here: power the expansion chassis down or pull their cables, then run this again with "
            "--chassis-off",
        )
    return Rung(DETACH, f"take {len(trouble.parts)} GPUs away from {scene.owner} in the fabric while the host is off")


def _not_bare(scene: Scene) -> str:
    return "" if scene.is_bare or scene.fabric is not None else "only once the GPUs are away"


def _switch_off(scene: Scene, trouble: Trouble) -> str:
    idrac = scene.idrac
    for job in idrac.jobs():
        if job.is_running:
            raise BenchError(f"{job} is at work and must not be cut off; nothing was switched off")
    if against := _gone_on(trouble.sight, sight(idrac.lc_status(), idrac.insist_on(scene.tag))):
        raise BenchError(f"{against} since it was looked at; nothing was switched off, look again")
    scene.handover.leave(KEY, "the host was asked to switch off (ForceOff)", "ComputerSystem.Reset On")
    send_reset(idrac, Wanted.OFF, expected_tag=scene.tag)
    idrac.clock.until(
        lambda: idrac.system().power_state, lambda power: power == "Off", what="the host to be off", every=5, within=SWITCHING
    )
    scene.handover.leave(KEY, "the host is off", "ComputerSystem.Reset On")
    return "the host is off"


def _gone_on(before: Sight, now: Sight) -> str:
    """What has changed of a host that was stuck, or nothing: it may have come up by itself, or somebody may have come."""
    if now.is_through:
        return f"the host got through POST ({now})"
    if now.is_attended:
        return f"somebody took the host into {now}"
    if before.is_halted and not now.is_halted:
        return f"somebody answered the prompt ({now})"
    return ""


def _detach(scene: Scene, trouble: Trouble) -> str:
    """Only while the host is off, and seen to be done."""
    if scene.is_bare or scene.fabric is None:
        return "the GPUs are away"
    system = scene.idrac.insist_on(scene.tag)
    if system.power_state != "Off":
        raise BenchError(f"the host is {system.power_state}; GPUs are taken away only from one that is off")
    slots = ", ".join(part.slot or part.serial for part in trouble.parts)
    scene.handover.leave(KEY, f"the host is off and its GPUs are detached: {slots}", "give them back in the fabric, then power on")
    if trouble.parts:
        scene.fabric.detach(trouble.parts)
    if left := _own_parts(scene):
        raise DeviceError(f"the fabric still gives {len(left)} GPUs to {scene.owner}")
    return f"{len(trouble.parts)} GPUs are detached: {slots}"


def _start_bare(scene: Scene, trouble: Trouble) -> str:
    idrac = scene.idrac
    if left := _own_parts(scene):
        raise BenchError(f"the fabric gives {len(left)} GPUs to {scene.owner}: that is no bare start")
    for job in idrac.jobs():
        if job.is_running:  # an update of firmware runs while the host is off
            raise BenchError(f"{job} is at work and must not be cut off; nothing was switched on")
    if (power := idrac.insist_on(scene.tag).power_state) != "Off":
        raise BenchError(f"the host is {power or 'in no known power state'} by now: somebody else switched it on; look again")
    mark = idrac.lc_mark()
    slots = ", ".join(part.slot or part.serial for part in trouble.parts) if scene.fabric is not None and not scene.is_bare else ""
    detached = f"; until it does the host is off and its GPUs are detached: {slots}" if slots else ""
    undo = "look at its console; ComputerSystem.Reset ForceOff"
    back = "; give them back in the fabric, then power on" if slots else ""
    scene.handover.leave(KEY, f"the host was asked to start without its GPUs{detached}", f"{undo}{back}")
    reset = send_reset(idrac, Wanted.RESTART, expected_tag=scene.tag)
    watch = Watch(idrac, None, scene.console, scene.limits, reset, mark.number if mark else 0, "")
    stop = watch.run()
    if stop is not None:
        scene.handover.leave(KEY, f"a bare start failed: {stop.text}", "hands are needed at the machine")
        raise DeviceError(f"the bare start failed too: {stop.text}; hands are needed")
    scene.handover.leave(
        KEY,
        "the host runs without its GPUs",
        "put the old settings back (bringup bios apply --attributes EXPORT), switch off, then give it 1, 2, 4, 8, ... GPUs",
    )
    restarts = [event for event in watch.events if event.message_id in RESTARTS]
    return f"it started bare: {watch.sights[-1]}{f', {restarts[-1]}' if restarts else ''}; {_queue(idrac)}"


def _queue(idrac: Idrac) -> str:
    """What still waits: a job that was there before the start has run in it."""
    jobs = [str(job) for job in idrac.jobs() if job.is_active]
    pending = sorted(idrac.bios().pending)
    waiting = [*jobs, *([f"{', '.join(pending)} pending"] if pending else [])]
    return f"still waiting: {'; '.join(waiting)}" if waiting else "no job waits and nothing is pending"


def _restore(scene: Scene) -> str:
    """Old settings back, by the same way as any change: planned, validated, proven."""
    bios = scene.platform.bios.model_copy(update={"attributes": dict(scene.restore)})
    platform = scene.platform.model_copy(update={"bios": bios})
    changed = change_bios(scene.idrac, platform, scene.consent, scene.handover, expected_tag=scene.tag)
    if changed.story.stop is not None:
        raise changed.story.stop.error
    done = ", ".join(str(change) for change in changed.story.plan.changes)
    scene.handover.leave(
        KEY, "the host runs without its GPUs, the old settings are back", "switch off, then give it 1, 2, 4, ... GPUs"
    )
    return f"put back {done}" if changed.story.patches else "every setting was so already"
