"""Watch a boot from the reset to the operating system, and stop as soon as it is clear that it will not get there.

             halted, attended ──▶ post-halt        too many restarts ──▶ loop
                    ▲                                      ▲
reset ──▶ begun ──▶ POST ─────────(no change)──▶ post-progress
  │                  │ through
  └─▶ new-boot       └──▶ host reached, with a new boot id
    (nothing in           ├──(the kernel panics on the console)──▶ host-reach at once
     five minutes)        ├──(login refused, host key not the known one)──▶ host-reach at once: the bench's
                          ├──(a login prompt on the console, and no answer)──▶ host-reach: the bench's
                          ├──(the console is the way to the host, and shows no boot)──▶ console: the bench's
                          └──(no answer)──▶ host-reach
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.devices.console import Console, Reading, Transcript
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LogEntry
from harness.errors import AuthRefused, Blame, BringupError, TapeError, Timeout, Untrusted
from harness.platform import Boot
from harness.procedures.boot.post import RESTARTS, Sight, restarts, sight
from harness.procedures.boot.story import CONSOLE, HALT, LOOP, NEW_BOOT, PROGRESS, REACH
from harness.procedures.endurance import Endurance
from harness.procedures.power import TABLE, ResetSent, Way
from harness.procedures.stop import Stop
from harness.units import duration

STARTING = TABLE[Way.WARM].limit
"""Seconds from the reset until something shows that the host restarts."""

QUICK = 60.0
"""Seconds after which a boot that only the log shows counts as through POST: it was over between two looks."""

BARRED = (AuthRefused, Untrusted)
"""What no waiting changes: an operating system is there and does not let us in, or it is not the one we know."""

PACE = 10.0
"""Seconds between two looks at a host that starts."""

CUT_OFF = 300.0
"""Seconds that a host has to answer after its login prompt is on the console: DHCP and what waits for it give up within two or
three minutes (ours)."""

LOGIN = r"^\S* ?login: ?(\[ *\d+\.\d+\]|$)"
"""A login prompt, also where the kernel goes on talking behind it."""

PANIC = r"Kernel panic - not syncing"


@dataclass
class Watch:
    """What was seen so far. ``mark`` is the log's newest entry before the reset, ``previous`` the boot id before it."""

    idrac: Idrac
    host: Host | None
    console: Console | None
    limits: Boot
    reset: ResetSent
    mark: int
    previous: str
    endurance: Endurance = field(init=False)
    sights: list[Sight] = field(default_factory=list)
    events: tuple[LogEntry, ...] = ()
    transcript: Transcript = field(default_factory=Transcript)
    heard_before: int = 0
    login_at: float | None = None
    began_at: float | None = None
    through_at: float | None = None
    reached_at: float | None = None
    boot_id: str = ""
    host_error: str = ""
    is_barred: bool = False
    console_error: str = ""

    def __post_init__(self) -> None:
        self.endurance = Endurance(self.idrac.clock)

    def run(self) -> Stop | None:
        """Watch to the end. None where the host came back, else why it did not."""
        stop = self._watch()
        self._listen()  # while the host was asked for the last time, the console went on
        return stop

    def _watch(self) -> Stop | None:
        try:
            self.idrac.clock.until(
                self.look, lambda _: self.is_over(), what="the host to come back", every=self._pace(), within=self.limits.within
            )
            stop = self.stop()
            self._read_log()
        except Timeout as timeout:
            check = PROGRESS if self.through_at is None else REACH
            return Stop(check, f"no end within {duration(timeout.seconds)}{self._usual()}: {self._where()}", self._blame(check))
        except TapeError:
            raise
        except BringupError as error:
            return Stop(NEW_BOOT if self.began_at is None else PROGRESS, f"the BMC was lost: {error}", error.blame)
        return stop

    def _pace(self) -> float:
        """Seconds between two looks; a machine that is known to boot fast is looked at more often, to see its stages."""
        return min(PACE, max(1.0, self.limits.usual / 15)) if self.limits.usual else PACE

    def look(self) -> Sight | None:
        """One look at everything; None while the BMC does not answer."""
        seen = self.endurance.ask(lambda: (self.idrac.lc_status(), self.idrac.system()))
        self._listen()
        if seen is None:
            return None
        now = sight(*seen)
        has_moved = not self.sights or not now.same_place(self.sights[-1])
        if has_moved:
            self.sights.append(now)
        if has_moved or self.began_at is None:
            self._read_log()
        self._notice(now)
        return now

    def _read_log(self) -> None:
        """The log since the reset; it is long, so it is read where something moved and at the end."""
        events = self.endurance.ask(lambda: self.idrac.lc_log(self.mark))
        self.events = self.events if events is None else events

    def is_over(self) -> bool:
        """True where the host is back or will not come back."""
        return self._is_back() or self.stop() is not None

    def stop(self) -> Stop | None:
        """Why it will not come back, by what was seen so far."""
        if not self.sights or self._is_back():
            return None
        rules = (
            (self._not_begun, self._halted, self._looping, self._panicked, self._barred, self._cut_off, self._stuck)
            if self.began_at is not None
            else (self._not_begun,)
        )
        return next((stop for rule in rules if (stop := rule(self.sights[-1])) is not None), None)

    def _not_begun(self, last: Sight) -> Stop | None:
        if self.began_at is not None or self.idrac.clock.now() - self.reset.at < STARTING:
            return None
        waited = duration(STARTING)
        return Stop(NEW_BOOT, f"{self.reset.kind} was accepted, and in {waited} nothing restarted: {last}, no entry in the log")

    def _halted(self, last: Sight) -> Stop | None:
        if not last.is_halted and not last.is_attended:
            return None
        return Stop(HALT, f"POST stopped and waits for a key: {last}")

    def _looping(self, last: Sight) -> Stop | None:
        count = restarts(self.sights, self.events)
        if count <= self.limits.extra_resets:
            return None
        return Stop(LOOP, f"the host restarted {count} times by itself ({self._ids() or 'nothing in the log'}); now {last}")

    def _panicked(self, last: Sight) -> Stop | None:
        if not self.panic:
            return None
        waited = duration(self.idrac.clock.now() - last.at)
        return Stop(REACH, f"{self.panic}; {self._no_boot()}: {last} for {waited}")

    @property
    def panic(self) -> str:
        """What the kernel said when it panicked, without its time, or nothing. One that then starts again has failed too."""
        return re.sub(r"^\[ *\d+\.\d+\] *", "", self.transcript.line(PANIC))

    def _cut_off(self, last: Sight) -> Stop | None:
        """The operating system runs, and the way to it is cut: the network was waited for long enough."""
        now = self.idrac.clock.now()
        if self.host is None or self.login_at is None or now - self.login_at < min(CUT_OFF, self.limits.no_progress):
            return None
        waited = f"for {duration(now - self.login_at)} after its login prompt"
        text = f"the operating system runs (seen on the console) and the host does not answer {waited}: {last}{self._error()}"
        return Stop(REACH, text, Blame.BENCH)

    def _barred(self, last: Sight) -> Stop | None:
        if not self.is_barred:
            return None
        return Stop(REACH, f"the host does not let us in; it is {last}{self._error()}", Blame.BENCH)

    def _stuck(self, last: Sight) -> Stop | None:
        """No change for too long: POST itself, or a host that is through it and does not answer."""
        waited = self.idrac.clock.now() - last.at
        if self.endurance.is_lost or waited < self.limits.no_progress:
            return None
        if self.through_at is None:
            return Stop(PROGRESS, f"no progress in POST for {duration(waited)}: {last}; {self._no_boot()}")
        if (reading := self._deaf()) is not None:
            text = f"the console, the only way to the host, is {reading.value}, and for {duration(waited)} the BMC says {last}"
            return Stop(CONSOLE, f"{text}{self._error()}", Blame.BENCH)
        what = "the host did not answer" if self.host is not None else "no operating system came up"
        return Stop(REACH, f"{self._no_boot()}: {what} for {duration(waited)}: {last}{self._error()}", self._blame(REACH))

    def _deaf(self) -> Reading | None:
        """What the console carries instead of a boot, where it is the only way to the host: then nobody can say that it is down."""
        if self.console is None or self.host is None or not self.host.is_on_console or self.transcript.reading is Reading.BOOT:
            return None
        return self.transcript.reading

    def _notice(self, now: Sight) -> None:
        """The moments that matter: begun, through POST, host reached."""
        is_logged = any(event.message_id in RESTARTS for event in self.events)
        if self.began_at is None and (now.is_underway or is_logged):
            self.began_at = now.at
        if self.began_at is None:
            return
        if now.is_through and self._has_posted(now):
            if self.through_at is None:
                self.through_at = now.at
            if self.login_at is None and self._shows_login():
                self.login_at = self.transcript.chunks[-1].at  # it mostly stands at the end of what was said
            if not self.panic:
                self._try_host()
        elif not now.is_through:
            self.through_at = self.login_at = None
            self.heard_before = len(self.transcript.chunks)

    def _has_posted(self, now: Sight) -> bool:
        """The first looks may still show the old boot: a POST must have been seen, or time for a short one have passed."""
        began = self.began_at if self.began_at is not None else now.at
        return any(seen.is_underway for seen in self.sights) or now.at - began >= QUICK

    def _listen(self) -> None:
        """What the console said; one that breaks off ends no boot."""
        if self.console is None or self.console_error:
            return
        try:
            self.transcript += self.console.drain()
        except TapeError:
            raise
        except BringupError as error:
            self.console_error = str(error)

    def _try_host(self) -> None:
        if self.host is None:
            return
        try:
            boot_id = self.host.boot_id()
        except TapeError:
            raise
        except BringupError as error:
            self.host_error, self.is_barred = str(error), isinstance(error, BARRED)
            return
        if boot_id != self.previous:
            self.boot_id, self.reached_at, self.host_error = boot_id, self.idrac.clock.now(), ""
        else:
            self.host_error = f"it still has the boot id {boot_id} of before the reset"

    def _is_back(self) -> bool:
        if self.through_at is None or not self.sights:
            return False
        if self.host is not None:
            return self.reached_at is not None
        last = self.sights[-1]
        return last.progress in ("OSRunning", "") or self._shows_login()

    def _shows_login(self) -> bool:
        """Whether the console shows a login prompt since POST was seen last: one of a boot before that says nothing of this one."""
        return Transcript(self.transcript.chunks[self.heard_before :]).says(LOGIN)

    def _no_boot(self) -> str:
        return f"no new boot in {duration(self.idrac.clock.now() - self.reset.at)}{self._usual()}"

    def _usual(self) -> str:
        return f" (usual {duration(self.limits.usual)})" if self.limits.usual else ""

    def _where(self) -> str:
        """The last state and for how long, with what the host said."""
        last = self.sights[-1] if self.sights else None
        if last is None:
            return "the BMC never said where the host is"
        return f"{last} for {duration(self.idrac.clock.now() - last.at)}{self._error()}"

    def _error(self) -> str:
        return f"; host: {self.host_error}" if self.host_error else ""

    def _ids(self) -> str:
        return ", ".join(dict.fromkeys(event.message_id for event in self.events if event.message_id.startswith(("UEFI", "PST"))))

    def _blame(self, check: str) -> Blame:
        """An operating system that shows its login prompt is alive: then the way to it is to blame, a renamed NIC for one."""
        return Blame.BENCH if check == REACH and self._shows_login() else Blame.PRODUCT
