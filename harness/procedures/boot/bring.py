"""Restart the machine once and watch it come back; without consent, or with somebody in the way, only look."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from harness.consent import Consent
from harness.devices.console import Console, Reading
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LogEntry
from harness.errors import BenchError, Blame, BringupError, TapeError, Timeout
from harness.platform import Platform
from harness.procedures.bios.version import suspicion
from harness.procedures.boot.post import sight
from harness.procedures.boot.story import CONSOLE, HALT, LOOP, NEW_BOOT, PROGRESS, REACH, BootStory
from harness.procedures.boot.watch import BARRED, Watch
from harness.procedures.clearance import hindrance
from harness.procedures.handover import Handover
from harness.procedures.host_state import ATTENDED, settle
from harness.procedures.occupancy import occupants
from harness.procedures.power import TABLE, ResetSent, Wanted, Way, obstacle, send_reset
from harness.procedures.screen import take_screen
from harness.procedures.stop import Stop

KEY = "boot"
"""The key under which the hand-over knows what this stage leaves."""

LOADING = 300.0
"""Seconds that an operating system which is being loaded is waited for before it is restarted."""

CLIMB = "`bringup rescue --bench BENCH` shows the ladder and takes it rung by rung, detaching the GPUs where a fabric can be asked"
"""The command that goes on from here."""

RUNG = "power the expansion chassis down or detach the GPUs, then power the host on: it boots bare, and BIOS jobs run again"
"""The next rung of the rescue ladder. The fabric is only read here, so hands are needed for it."""

NEXT: Mapping[str, str] = {
    NEW_BOOT: "see whether the BMC obeys at all; a virtual AC cycle of the host, with it off first, is the last resort",
    HALT: "read the reason on the screen or in the log and remove it; ErrPrompt=Disabled would only hide it",
    PROGRESS: f"ForceOff, then {RUNG}; {CLIMB}",
    CONSOLE: "find the port and the rate that talk (bringup console probe BENCH), or reach the host another way",
    REACH: "log in on the console: a network card that new bus numbers renamed, a file-system check, a PXE loop",
}
"""What to do next, by the check that stopped the boot."""

NO_SYSTEM = "start a kernel that is known to work (boot menu, rescue medium), then compare; a file-system check or a PXE loop waits"
"""What to do next where POST is through and nothing of an operating system was seen."""


@dataclass(frozen=True)
class _Scene:
    """What the steps of one boot share."""

    idrac: Idrac
    host: Host | None
    console: Console | None
    platform: Platform
    handover: Handover
    tag: str
    consent: Consent
    changed: str = ""


def bring_up(  # noqa: PLR0917 - the handles and facts of a run, in the order every caller has them
    idrac: Idrac,
    host: Host | None,
    console: Console | None,
    platform: Platform,
    consent: Consent,
    handover: Handover,
    *,
    expected_tag: str,
    since: LogEntry | None = None,
    changed: str = "",
) -> BootStory:
    """With consent restart the host once and watch it; else look where it is.

    ``since`` is the log's newest entry at the start of the run, ``changed`` says what the run changed before.
    Raises BenchError where another machine answers, BenchError and DeviceError where the first reads fail; after that it stops
    instead. Nothing is restarted while a job runs or waits, while
    somebody stands at the machine or uses it, or where the host refuses us, so that nobody could see it come back.
    """
    scene = _Scene(idrac.located(), host, console, platform, handover, expected_tag, consent, changed)
    scene.idrac.insist_on(expected_tag)
    story = BootStory(consent.apply, has_host=host is not None)
    if consent.apply:
        story = replace(story, refusal=_refusal(scene))
    boot_id, bar = _boot_id(host)
    story = replace(story, previous_boot_id=boot_id, refusal=(bar or story.refusal) if consent.apply else "")
    mark = scene.idrac.lc_mark() if consent.apply and not story.refusal else None
    if consent.apply and not story.refusal:
        story = replace(story, refusal=hindrance(scene.idrac, scene.idrac.lc_status(), tag=expected_tag))
    story = _restart(scene, story, mark) if consent.apply and not story.refusal else _look(scene, story, since)
    return _afterwards(scene.idrac, story)


def _refusal(scene: _Scene) -> str:
    """Why the machine must not be restarted now, or nothing. A boot that is under way is let come to its end first."""
    lc = settle(scene.idrac, scene.platform.boot.no_progress)
    if lc.server in ATTENDED:
        return f"somebody left the host in {lc.server}"
    _let_load(scene.idrac, min(LOADING, scene.platform.boot.no_progress))
    return obstacle(scene.idrac.jobs()) or _in_use(scene, lc.server)


def _in_use(scene: _Scene, server: str) -> str:
    progress = scene.idrac.system().boot_progress
    return occupants(scene.host).hindrance(server, progress, assume_free=scene.consent.assume_free)


def _let_load(idrac: Idrac, patience: float) -> None:
    """An operating system that is just being loaded is let come up: cutting it off is unkind to its disks."""
    with suppress(Timeout):
        idrac.clock.until(
            lambda: idrac.system().boot_progress,
            lambda progress: progress != "OSBootStarted",
            what="the operating system to come up",
            every=10,
            within=patience,
        )


def _restart(scene: _Scene, story: BootStory, mark: LogEntry | None) -> BootStory:
    idrac, handover = scene.idrac, scene.handover
    if scene.console is not None:
        with suppress(BenchError):
            scene.console.drain()
    handover.leave(KEY, "a restart was asked for and the host was not seen to come back", "look at its console, power it on")
    try:
        reset = send_reset(idrac, Wanted.RESTART, expected_tag=scene.tag)
    except BenchError:  # another machine, a lock that was stolen, a session that had ended: nothing was reset
        handover.clear(KEY)
        raise
    watch = Watch(idrac, scene.host, scene.console, scene.platform.boot, reset, mark.number if mark else 0, story.previous_boot_id)
    stop = watch.run()
    story = replace(
        story,
        reset=reset,
        began_at=watch.began_at,
        through_at=watch.through_at,
        reached_at=watch.reached_at,
        boot_id=watch.boot_id,
        host_error=watch.host_error,
        sights=tuple(watch.sights),
        events=watch.events,
        console=None if scene.console is None else watch.transcript,
        console_error=watch.console_error,
        stop=stop,
        losses=watch.endurance.losses,
    )
    if stop is None:
        handover.clear(KEY)
        return story
    story = replace(story, screen=take_screen(idrac, with_video=stop.check in (HALT, LOOP, PROGRESS)))
    if stop.check == LOOP:
        return _rescue(scene, story, stop)
    if watch.is_barred:
        handover.clear(KEY)
        return _with_evidence(story, stop, "")
    handover.leave(KEY, f"after a restart: {stop.text}", "look at the host's console, then power-cycle it")
    return _with_evidence(story, stop, _advice(watch, stop), _changed(scene, reset))


def _advice(watch: Watch, stop: Stop) -> str:
    """What to do next: where no login was seen, nobody can log in."""
    is_silent = stop.check == REACH and stop.blame is Blame.PRODUCT and watch.console is not None
    return NO_SYSTEM if is_silent else NEXT.get(stop.check, "")


def _changed(scene: _Scene, reset: ResetSent) -> str:
    """What was done to the machine before it did not come back."""
    return " and ".join(change for change in (scene.changed, reset.kind) if change)


def _with_evidence(story: BootStory, stop: Stop, advice: str, changed: str = "") -> BootStory:
    """The stop's text with what was saved beside it: log, console, screen, and what to do next."""
    lines = [stop.text]
    if notable := [event for event in story.events if event.severity not in ("OK", "Informational")]:
        lines.append(f"log: {'; '.join(f'{event} {event.text}'.rstrip() for event in notable[-6:])}")
    if story.console is not None and story.console.reading in (Reading.BOOT, Reading.STRANGE):
        lines += [f"console: {line}" for line in story.console.tail(4)]
    lines += story.screen.told
    lines += _from_here(changed, advice)
    return replace(story, stop=replace(stop, text="\n".join(lines)))


def _from_here(changed: str, advice: str) -> list[str]:
    return [f"changed before: {changed}"] * bool(changed) + [f"next: {advice}"] * bool(advice)


def _rescue(scene: _Scene, story: BootStory, stop: Stop) -> BootStory:
    """Evidence is saved by now; a machine that restarts for ever is switched off. Anything further needs hands, and says so.

    Not while a job is at work, which looks like a loop to nobody but us and is cut off by nobody; nor where that cannot be told.
    """
    idrac = scene.idrac
    try:
        if (working := next((job for job in idrac.jobs() if job.is_running), None)) is not None:
            rescue = f"{working} is at work, so the host was not switched off: wait for it, then ForceOff; hands are needed: {RUNG}"
            scene.handover.leave(KEY, f"the host restarts for ever; {rescue}", "ComputerSystem.Reset ForceOff")
            return _with_evidence(replace(story, rescue=rescue), _suspecting(scene, stop), f"{rescue}; {CLIMB}")
        send_reset(idrac, Wanted.OFF, expected_tag=scene.tag)
        idrac.clock.until(
            lambda: idrac.system().power_state,
            lambda power: power == "Off",
            what="the host to be off",
            every=5,
            within=TABLE[Way.FORCED_OFF].limit,
        )
        rescue = f"the host was switched off (ForceOff); hands are needed: {RUNG}"
    except TapeError:
        raise
    except BringupError as error:
        rescue = f"the host could not be switched off ({error}); hands are needed: {RUNG}"
    scene.handover.leave(KEY, f"the host restarted for ever; {rescue}", "ComputerSystem.Reset On")
    changed = "" if story.reset is None else _changed(scene, story.reset)
    return _with_evidence(replace(story, rescue=rescue), _suspecting(scene, stop), f"{rescue}; {CLIMB}", changed)


def _suspecting(scene: _Scene, stop: Stop) -> Stop:
    """The stop of a loop with what the firmware's deny list says of this BIOS: one version is known to loop with GPUs attached."""
    try:
        version = scene.idrac.system().bios_version
    except TapeError:
        raise
    except BringupError:
        version = ""
    return replace(stop, text=f"{stop.text}\n{suspicion(version, scene.platform.bios)}")


def _look(scene: _Scene, story: BootStory, since: LogEntry | None) -> BootStory:
    """Where the machine is, without touching it."""
    idrac, host = scene.idrac, scene.host
    now = sight(idrac.lc_status(), idrac.system())
    story = replace(story, sights=(now,), events=idrac.lc_log(since.number) if since is not None else ())
    if now.is_halted:
        stop = Stop(HALT, f"POST stopped and waits for a key: {now}")
        return _with_evidence(replace(story, screen=take_screen(idrac, with_video=True)), stop, NEXT[HALT])
    if host is None:
        return story
    try:
        return replace(story, boot_id=host.boot_id(), reached_at=idrac.clock.now())
    except TapeError:
        raise
    except BringupError as error:
        stop = Stop(REACH, f"the host does not answer; it is {now}: {error}", Blame.BENCH)
        if now.server == "PoweredOff":
            stop = Stop(REACH, f"the host is switched off ({now}), and nothing is started without consent (--apply)", Blame.BENCH)
        elif scene.console is not None and host.is_on_console and now.is_through:
            text = (
                f"the console, the only way to the host, shows no prompt ({error}), and the BMC says {now}; nothing was restarted"
            )
            stop = Stop(CONSOLE, "\n".join((text, *_from_here(scene.changed, NEXT[CONSOLE]))), Blame.BENCH)
        return replace(story, host_error=str(error), stop=stop)


def _afterwards(idrac: Idrac, story: BootStory) -> BootStory:
    """How it stands at the end, as far as it can be read."""
    try:
        recovery = idrac.bios().attributes.get("AcPwrRcvry")
        return replace(story, system=idrac.system(), ac_recovery=recovery if isinstance(recovery, str) else "")
    except TapeError:
        raise
    except BringupError:
        return story


def _boot_id(host: Host | None) -> tuple[str, str]:
    """The host's boot id before anything, empty where it does not answer: a machine may well be off. And why it refuses us."""
    if host is None:
        return "", ""
    try:
        return host.boot_id(), ""
    except BARRED as error:
        return "", f"the host does not let us in: {error}"
    except TapeError:
        raise
    except BringupError:
        return "", ""
