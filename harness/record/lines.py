"""The grammar of results.jsonl: which lines there are, their keys in order, and what a key holds when nobody gave it.

    run  identity?  plan?  ( stage:started  ( measurement*  case )*  stage:ended  |  stage:not run )*  handover?  note*  end

One JSON object a line, each with ``seq`` (from 1, without a gap) and ``kind``. ``note`` and ``exhibit`` may stand anywhere. Only
the run line holds wall time and the run's id, so two replays of one tape are equal line by line but for their first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

SCHEMA = 1
EXHIBIT = 1
"""The version of all exhibits; one of another version is kept and not drawn."""

FILE_NAME = "results.jsonl"

VOCABULARY = frozenset(("kind", "mode", "source", "stages", "stage", "state", "gate", "outcome", "blame", "verdict"))
"""Keys whose values are always words of the record itself: a secret that happens to read the same must not take them out."""


class CaseOutcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    BLOCKED = "blocked"
    NOT_MEASURED = "not measured"
    NOT_APPLICABLE = "not applicable"
    WAIVED = "waived"


LINES: Mapping[str, tuple[tuple[str, Any], ...]] = MappingProxyType(
    {
        "run": (
            ("schema", SCHEMA),
            ("id", ""),
            ("started", ""),
            ("mode", ""),
            ("source", ""),
            ("bench", ""),
            ("platform", ""),
            ("stages", ()),
            ("harness", ""),
            ("tape", None),
            ("faults", ()),
            ("apply", False),
            ("command", ()),
            ("checksums", MappingProxyType({})),
            ("resumed", None),
        ),
        "identity": (("facts", MappingProxyType({})),),
        "plan": (("cases", ()),),
        "stage": (("stage", ""), ("state", ""), ("gate", None), ("reason", ""), ("lost", ()), ("at", 0.0)),
        "measurement": (
            ("case", ""),
            ("check", ""),
            ("name", ""),
            ("value", None),
            ("unit", ""),
            ("limit", None),
            ("bounds", None),
            ("outcome", ""),
            ("margin", None),
            ("part", None),
            ("at", 0.0),
            ("note", ""),
        ),
        "case": (
            ("case", ""),
            ("check", ""),
            ("stage", ""),
            ("slot", None),
            ("title", ""),
            ("outcome", ""),
            ("blame", ""),
            ("message", ""),
            ("information", False),
            ("took", 0.0),
            ("at", 0.0),
            ("attachments", ()),
            ("waiver", None),
        ),
        "exhibit": (("name", ""), ("version", EXHIBIT), ("data", MappingProxyType({})), ("at", 0.0)),
        "handover": (("text", ""),),
        "note": (("text", ""),),
        "end": (("verdict", ""), ("blame", ""), ("exit", 0), ("at", 0.0)),
    }
)
"""Kind of line -> its keys in order with their defaults.

``limit`` of a measurement is for people; ``bounds`` is the same for programs: an object with ``kind`` (see harness.limits.Limit),
``values`` and, for an exact number, ``within`` in percent. A plan line lists the cases to come, each an object with ``case``,
``check``, ``stage``, ``slot`` and ``title``, so that a record which ends early still says what it never reached. An exhibit
holds facts that a page draws and nothing judges (see harness.procedures.exhibits): of one name the last one counts. The run
line's ``checksums`` are the SHA-256 of the bench's and the platform's file, and of the waivers'. Its ``resumed`` is null, or an
object with ``run`` and ``stages``: the run that this one went on with, and the stages whose lines stand here as that run wrote
them. A case that was waived says by which waiver: an object with ``check``, ``ticket``, ``owner``, ``expires`` (ISO 8601),
``reason`` and ``outcome``, the case's own without it; for all others it is null. ``results.schema.json`` says the same to
programs.
"""

TIMES = frozenset({"at", "took"})
"""Keys that hold seconds of the run's clock; they are written to the microsecond."""


def ordered(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a line in their fixed order, defaults filled in; what the grammar does not know comes last."""
    return {**dict(LINES.get(kind, ())), **fields}
