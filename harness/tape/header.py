"""The header of a tape, ``tape.toml``: what was recorded, when, and where the machine was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import TapeError
from harness.toml import parse_toml

HEADER = "tape.toml"
SCHEMA = 1


SOURCES = ("hardware", "virtual-lab", "model")
"""Where a tape's machine was. Only the first is hardware, and nothing simulated is ever called that."""


@dataclass(frozen=True)
class TapeInfo:
    """What a tape says about itself.

    ``source`` is one of SOURCES, ``recorded_at`` an ISO 8601 time with its zone, ``harness`` the version that recorded,
    ``stages`` the selected stages, ``apply`` whether changes were allowed, ``force_p2p`` whether GPUs copied
    whatever the IOMMU, ``faults`` those of the virtual lab that were switched on, ``identity`` what the machine was (service tag,
    BIOS, iDRAC, driver), ``pseudonyms`` whether machine, parts and addresses have other names here than their own. ``lanes``
    and ``facts`` are those of the recorded Lanes; the recorder fills them in.
    """

    bench: str
    platform: str
    source: str
    recorded_at: str
    harness: str
    stages: tuple[str, ...] = ()
    apply: bool = False
    faults: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    force_p2p: bool = False
    pseudonyms: bool = False


def header_text(info: TapeInfo) -> str:
    """The header as TOML, keys in one fixed order."""
    lines = [
        f"schema = {SCHEMA}",
        f"source = {_string(info.source)}",
        f"recorded_at = {_string(info.recorded_at)}",
        f"harness = {_string(info.harness)}",
        f"bench = {_string(info.bench)}",
        f"platform = {_string(info.platform)}",
        f"stages = {_strings(info.stages)}",
        f"apply = {str(info.apply).lower()}",
        *(["force_p2p = true"] if info.force_p2p else []),
        *(["pseudonyms = true"] if info.pseudonyms else []),
        f"faults = {_strings(info.faults)}",
        f"lanes = {_strings(info.lanes)}",
    ]
    for name, table in (("identity", info.identity), ("facts", info.facts)):
        lines += ["", f"[{name}]", *(f"{_string(key)} = {_string(value)}" for key, value in sorted(table.items()))]
    return "\n".join(lines) + "\n"


def read_info(folder: Path) -> TapeInfo:
    """Read the header of a tape. Raises TapeError, naming the file, where it is missing, damaged or of a newer schema."""
    path = folder / HEADER
    try:
        table = parse_toml(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise TapeError(f"{folder}: no tape here ({HEADER} is missing); record one with `bringup run --record`") from None
    except OSError as error:
        raise TapeError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise TapeError(f"{path}: not valid TOML: {error}") from None
    schema = table.pop("schema", None)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise TapeError(f"{path}: schema: {schema!r} is not a schema number")
    if schema > SCHEMA:
        raise TapeError(f"{path}: schema {schema} is newer than this version reads ({SCHEMA}); update bringup-harness")
    return _info(table, str(path))


_TYPES: dict[str, type] = {
    "stages": list,
    "faults": list,
    "lanes": list,
    "identity": dict,
    "facts": dict,
    "apply": bool,
    "force_p2p": bool,
    "pseudonyms": bool,
}


def _info(table: dict[str, Any], where: str) -> TapeInfo:
    known = [each.name for each in fields(TapeInfo)]
    for key in table:
        if key not in known:
            raise TapeError(f"{where}: unknown key {key!r}")
    table = {"faults": [], "force_p2p": False, "pseudonyms": False, **table}  # not in every tape
    for key in known:
        if key not in table:
            raise TapeError(f"{where}: {key} is missing")
        if not isinstance(table[key], _TYPES.get(key, str)) or not _holds_strings(table[key]):
            raise TapeError(f"{where}: {key}: {table[key]!r} cannot be meant")
    return check_info(TapeInfo(**(table | {key: tuple(table[key]) for key in ("stages", "faults", "lanes")})), where)


def check_info(info: TapeInfo, where: str) -> TapeInfo:
    """Return ``info``. Raises TapeError for a source that is none or a time that has no zone."""
    if info.source not in SOURCES:
        raise TapeError(f"{where}: source: {info.source!r} is none of {', '.join(SOURCES)}")
    try:
        time = datetime.fromisoformat(info.recorded_at)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise TapeError(f"{where}: recorded_at: {info.recorded_at!r} is not a time with its zone")
    return info


def _holds_strings(value: object) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(isinstance(each, str) for each in inner)


def _string(text: str) -> str:
    """A TOML basic string: JSON's, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _strings(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(_string(text) for text in texts)}]"
