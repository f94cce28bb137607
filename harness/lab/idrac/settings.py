"""The BIOS settings: what is in effect, what is pending, and what may be asked for.

PATCH ──▶ pending ──(a job runs during POST)──▶ current
             └────────(ClearPending)──▶ gone
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.lab.idrac.generations import Generation
from harness.lab.idrac.registry import REQUESTS, Value


@dataclass(frozen=True)
class Rejection:
    """Why one attribute of a request is refused: bare message id, and the arguments of the message."""

    attribute: str
    message_id: str
    arguments: tuple[str, ...]


class BiosSettings:
    """Current and pending values by attribute name; ``fixed`` are those that this machine does not let anybody set."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self._known = generation.by_name
        self.current: dict[str, Value] = generation.settled(generation.as_delivered())
        self.pending: dict[str, Value] = {}
        self.fixed: set[str] = set()

    def fix(self, name: str, value: Value) -> None:
        """Give an attribute a value that nobody can change from outside; the registry then says that it is read only."""
        self.current[name] = value
        self.fixed.add(name)

    def is_locked_now(self, name: str) -> bool:
        """Whether another attribute makes ``name`` read only as things are."""
        return self.generation.is_locked(name, self.current)

    def reject(self, wanted: Mapping[str, object]) -> tuple[Rejection, ...]:
        """Everything that is wrong with a request; it is taken whole or not at all.

        What is read only because of another attribute is judged as it would be after the same request, so SysProfile=Custom and
        PcieAspmL1=Disabled may come together (dell/dellemc-openmanage-ansible-modules#495).
        """
        after = {**self.current, **self.pending}
        after.update({name: value for name, value in wanted.items() if name in after and isinstance(value, str | int)})
        found = []
        for name, value in wanted.items():
            attribute = self._known.get(name)
            if attribute is None or not attribute.exposed:
                found.append(Rejection(name, "SYS429", (name,)))
            elif attribute.read_only or name in self.fixed:
                found.append(Rejection(name, "SYS427", (name,)))
            elif message_id := attribute.reject(value):
                found.append(Rejection(name, message_id, (str(value), name)))
            elif self.generation.is_locked(name, after):
                found.append(Rejection(name, "SYS410", ()))
        return tuple(found)

    def stage(self, wanted: Mapping[str, Value]) -> bool:
        """Make ``wanted`` pending and say whether that changed the pending set. Values already in effect are not listed."""
        before = dict(self.pending)
        self.pending.update(wanted)
        self.pending = {name: value for name, value in self.pending.items() if self.current[name] != value}
        return self.pending != before

    def clear(self) -> None:
        """Forget what is pending."""
        self.pending = {}

    def apply(self, *, but: str = "") -> None:
        """Put what is pending into effect, all of it except the attribute ``but``.

        It stays listed as pending until the job is over: ``/Bios`` may show new values before that
        (dsx-ai-factory/libredfish#25).
        """
        for name, value in self.pending.items():
            if name != but:
                self.current[name] = self._known[name].initial if name in REQUESTS else value
        self.current = self.generation.settled(self.current)

    def load_defaults(self) -> None:
        """The factory's values: as delivered, but with 64-bit MMIO on, as on the captures, and nothing pending."""
        delivered = self.generation.as_delivered()
        self.current = self.generation.settled({**delivered, "MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"})
        self.pending = {}
