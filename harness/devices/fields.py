"""Reading the JSON objects that workers print: strict about what must be there, clear about what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from harness.errors import BringupError


@dataclass(frozen=True)
class Fields:
    """One object of a worker. Every method raises BringupError, naming ``where`` and the field, for what cannot be meant."""

    where: str
    values: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """A word; ``default`` where the field is missing or null."""
        return str(self._of(name, str, default))

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number; ``default`` where the field is missing or null."""
        return int(self._of(name, int, default))

    def number(self, name: str, default: float | None = None) -> float:
        """A number; ``default`` where the field is missing or null."""
        return float(self._of(name, (int, float), default))

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false; ``default`` where the field is missing or null."""
        return bool(self._of(name, bool, default))

    def maybe_integer(self, name: str) -> int | None:
        """A whole number, or None where the worker could not read it."""
        return self.integer(name) if name in self else None

    def maybe_number(self, name: str) -> float | None:
        """A number, or None where the worker could not read it."""
        return self.number(name) if name in self else None

    def maybe_flag(self, name: str) -> bool | None:
        """True or false, or None where the worker could not read it."""
        return self.flag(name) if name in self else None

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers; empty where the field is missing."""
        found = self.sequence(name)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in found):
            raise BringupError(f"{self.where}: field {name!r} is {found!r}; are the agent and this harness of the same version?")
        return tuple(found)

    def maybe_finite(self, name: str) -> float | None:
        """A number, or None where it is null, infinite or no number (Python's JSON has words for both)."""
        value = self.maybe_number(name)
        return value if value is not None and isfinite(value) else None

    def sequence(self, name: str) -> Sequence[Any]:
        """A list; empty where the field is missing."""
        found: Sequence[Any] = self._of(name, list, [])
        return found

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object; empty where the field is missing."""
        found: Mapping[str, Any] = self._of(name, dict, {})
        return found

    def inner(self, name: str) -> Fields | None:
        """An object within, or None where the field is missing."""
        return Fields(f"{self.where}, {name}", self.mapping(name)) if name in self else None

    def _of(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise BringupError(f"{self.where}: no field {name!r}; are the agent and this harness of the same version?")
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BringupError(f"{self.where}: field {name!r} is {value!r}; are the agent and this harness of the same version?")
        return value


@dataclass(frozen=True)
class Lines:
    """All objects of one worker's run, after its first line has been checked."""

    worker: str
    objects: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, worker: str, objects: Sequence[Mapping[str, Any]], schema: int) -> Lines:
        """Check that ``worker`` speaks ``schema``. Raises BringupError where it does not, or said nothing but errors."""
        lines = cls(worker, tuple(objects))
        first = lines.every("hello")
        if not first:
            if not lines.every("error"):
                raise BringupError(f"agent {worker}: the first line, which names worker and schema, is missing")
            return lines
        spoken = first[0].integer("schema")
        if first[0].text("worker") != worker or spoken != schema:
            who = first[0].text("worker")
            raise BringupError(f"agent {worker}: got schema {spoken} of worker {who!r}, this harness reads schema {schema}")
        return lines

    @property
    def hello(self) -> Fields:
        """The first line; without any fields where the worker could not start."""
        found = self.every("hello")
        return found[0] if found else Fields(f"agent {self.worker}, hello", {})

    @property
    def trouble(self) -> str:
        """What the worker could not do, why, and what a person can do: one line. Empty where there was no trouble."""
        said = []
        for error in self.every("error"):
            do = error.text("do", "")
            said.append(f"{error.text('what', self.worker)}: {error.text('why', 'unknown')}{f'; {do}' if do else ''}")
        return "; ".join(said)

    def every(self, kind: str) -> tuple[Fields, ...]:
        """The objects of one kind, in order."""
        where = f"agent {self.worker}, {kind}"
        return tuple(Fields(where, found) for found in self.objects if found.get("kind") == kind)


def normal_address(text: str) -> str:
    """A PCI address as sysfs writes it: lower case, a domain of four digits where NVML prints eight (``00000000:3B:00.0``)."""
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def progress_of(line: str) -> str:
    """What a worker's progress line says, ``pairs 190 of 380``; nothing for any other line."""
    try:
        said = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(said, dict) or said.get("kind") != "progress":
        return ""
    return f"{said.get('stage', 'step')} {said.get('done', '?')} of {said.get('of', '?')}"
