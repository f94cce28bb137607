"""What one run was asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.errors import UsageMistake

BUNDLED_BENCH = "model-lqd8360"


class Watcher(Protocol):
    """Somebody who follows a run while it goes on."""

    def begins(self, headline: str) -> None:
        """The run begins; ``headline`` says what it touches."""

    def stage_begins(self, stage: str, cases: int) -> None:
        """A stage begins."""

    def waits(self, what: str, seconds: float, seen: object) -> None:
        """Something is being waited for; ``seen`` is the last thing seen."""

    def case_ends(self, case: str, outcome: str, at: float) -> None:
        """A case has its outcome."""

    def stage_ends(self, stage: str, gate: str, at: float) -> None:
        """A stage ended."""


class NoWatcher:
    """Nobody follows."""

    def begins(self, headline: str) -> None: ...

    def stage_begins(self, stage: str, cases: int) -> None: ...

    def waits(self, what: str, seconds: float, seen: object) -> None: ...

    def case_ends(self, case: str, outcome: str, at: float) -> None: ...

    def stage_ends(self, stage: str, gate: str, at: float) -> None: ...


@dataclass(frozen=True)
class Settings:
    """What one run was asked to do. ``apply`` None: not said, so only a modelled machine may be changed.

    ``lab_driver`` is a folder with driver libraries without hardware, on which a modelled machine's GPU workers really run,
    ``waivers`` a file of what somebody answers for (harness.waivers), ``steal_lock`` the owner's exact name from whom the
    machine's lock is taken, "" for nobody's, ``resume`` the folder of a run that was cut off and is gone on with.
    ``strict_tapes``: a recording that may mislead (harness.tape.currency) is refused. ``verify``: what a live machine answers is
    compared in shape with its tape. ``pseudonyms`` for what names a machine on the tape that is kept; None: on hardware only.
    """

    bench: str = BUNDLED_BENCH
    mode: str = "replay"
    apply: bool | None = None
    danger: frozenset[str] = frozenset()
    assume_free: bool = False
    force_p2p: bool = False
    steal_lock: str = ""
    stages: tuple[str, ...] = ()
    suites: tuple[Path, ...] = ()
    faults: tuple[str, ...] = ()
    report: Path = Path("reports")
    tapes: Path | None = None
    lab_driver: Path | None = None
    waivers: Path | None = None
    strict_tapes: bool = False
    pseudonyms: bool | None = None
    verify: bool = False
    resume: Path | None = None
    command: tuple[str, ...] = ()
    watcher: Watcher = field(default_factory=NoWatcher)

    def tape_of(self, bench: str) -> Path:
        """Where a recording of ``bench`` goes: never into the package."""
        return (self.tapes or Path("fixtures") / "tapes") / bench


def choose_mode(*, named: bool, live: bool, replay: bool, record: bool, prefix: str = "--") -> str:
    """The mode that the options ask for. Raises UsageMistake where they contradict each other or say nothing.

    ``prefix`` is what the options begin with where they were given.
    """
    if replay and (live or record):
        raise UsageMistake(
            f"{prefix}replay excludes {prefix}live and {prefix}record: a run either touches the machine or replays its tape"
        )
    if record:
        return "record"
    if live:
        return "live"
    if replay or not named:
        return "replay"
    raise UsageMistake(
        f"{prefix}bench needs {prefix}live (touch the machine), {prefix}record (live, keeping a tape) "
        f"or {prefix}replay (touch nothing)"
    )


def check_stages(stages: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageMistake for a stage that does not exist."""
    from difflib import get_close_matches

    for stage in stages:
        if stage not in known:
            near = get_close_matches(stage, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UsageMistake(f"no stage {stage!r}{hint} The stages are {', '.join(known)}.")
