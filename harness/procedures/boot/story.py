"""What came of a boot, or what was seen of a machine that was not restarted: facts for the checks of the boot stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.devices.console import Transcript
from harness.devices.idrac_facts import LogEntry, System
from harness.procedures.boot.post import Sight, restarts, stages
from harness.procedures.endurance import Loss
from harness.procedures.power import ResetSent
from harness.procedures.screen import NOTHING_SEEN, Screen
from harness.procedures.stop import Stop, pass_or_raise

NEW_BOOT, HALT, LOOP, PROGRESS = "boot.new-boot", "boot.post-halt", "boot.loop", "boot.post-progress"
CONSOLE, REACH, POWER, EVENTS = "boot.console", "boot.host-reach", "boot.power-after-ac", "boot.events"

ORDER = (NEW_BOOT, HALT, LOOP, PROGRESS, CONSOLE, REACH)
"""The checks a boot passes in this order; the others judge what it left. The console is one of them where it is
the way to the host."""


@dataclass(frozen=True)
class BootStory:
    """One boot, or one look.

    ``refusal`` says why no reset was sent although it was agreed to. ``sights`` has each change of state since the reset, oldest
    first; ``events`` is the Lifecycle log since the reset, or since the start of the run where there was none. ``console`` is None
    where the bench has none. ``boot_id`` and ``previous_boot_id`` are the kernel's, empty where the host did not answer.
    ``ac_recovery`` is the BIOS attribute AcPwrRcvry, ``rescue`` what was done to a machine that did not come back.
    """

    is_consented: bool
    refusal: str = ""
    previous_boot_id: str = ""
    reset: ResetSent | None = None
    began_at: float | None = None
    through_at: float | None = None
    reached_at: float | None = None
    boot_id: str = ""
    has_host: bool = True
    host_error: str = ""
    sights: tuple[Sight, ...] = ()
    events: tuple[LogEntry, ...] = ()
    console: Transcript | None = None
    console_error: str = ""
    screen: Screen = NOTHING_SEEN
    system: System | None = None
    ac_recovery: str = ""
    stop: Stop | None = None
    rescue: str = ""
    losses: tuple[Loss, ...] = field(default_factory=tuple)

    @property
    def stopped(self) -> str:
        """Why it stopped, empty where it did not."""
        return self.stop.text if self.stop is not None else ""

    @property
    def stopped_by(self) -> str:
        """The check that has to fail for it, empty where it did not stop."""
        return self.stop.check if self.stop is not None else ""

    @property
    def last(self) -> Sight | None:
        """Where the host was seen last."""
        return self.sights[-1] if self.sights else None

    @property
    def restarts(self) -> int:
        """How often the boot began again by itself."""
        return 0 if self.reset is None else restarts(self.sights, self.events)

    @property
    def stages(self) -> tuple[tuple[str, float], ...]:
        """Each stage seen and its seconds."""
        return stages(self.sights) if self.reset is not None else ()

    def since_reset(self, at: float | None) -> float | None:
        """Seconds from the reset to a moment, None where either did not happen."""
        return None if at is None or self.reset is None else round(at - self.reset.at, 3)

    def reached(self, check: str) -> None:
        """Raise what ``check`` has to raise: the stop's error, or Blocked behind it. Passes before it."""
        pass_or_raise(self.stop, ORDER, check)
