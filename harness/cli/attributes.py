"""BIOS settings in files: a one-off set to apply, and exports of whole machines."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, UsageMistake
from harness.limits import Limit, exactly, limit_from_toml
from harness.procedures.bios.settings import Unit
from harness.secret import holds_secret

SCHEMA = "bringup-bios-1"


def read_attributes(file: Path) -> dict[str, Limit]:
    """A set of wanted settings: TOML or JSON, by itself, below ``attributes``, below ``bios.attributes``, or an export.

    Of an export only what can be set is wanted. Raises ConfigError with file and key.
    """
    document = _document(file)
    if document.get("schema") == SCHEMA:
        unit = _unit(document, file)
        return {name: exactly(value) for name, value in unit.values.items() if name not in unit.facts}
    table = document.get("attributes", _table(document.get("bios")).get("attributes", document))
    if not isinstance(table, Mapping) or not table:
        raise ConfigError(str(file), 'takes settings such as MmioAbove4Gb = "Enabled"', key="attributes")
    return {name: _limit(name, value, file) for name, value in table.items()}


def read_unit(file: Path) -> Unit:
    """An export. Raises ConfigError for any other file."""
    document = _document(file)
    if document.get("schema") != SCHEMA:
        raise ConfigError(str(file), f"is no export of BIOS settings (schema {SCHEMA!r}); `bringup bios export` writes them")
    return _unit(document, file)


def write_unit(unit: Unit, file: Path, *, force: bool) -> None:
    """Write an export, whole or not at all. Raises UsageMistake where the file exists and ``force`` is False."""
    if file.exists() and not force:
        raise UsageMistake(f"{file} exists; --force overwrites it")
    document = {
        "schema": SCHEMA,
        "name": unit.name,
        "identity": dict(unit.identity),
        "attributes": dict(sorted(unit.values.items())),
        "read_only": sorted(unit.facts),
        "redacted": list(unit.redacted),
    }
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def _document(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageMistake(f"no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), f"cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    try:
        document = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(str(file), f"is not {'JSON' if file.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(str(file), "takes a table of settings")
    return document


def _unit(document: Mapping[str, Any], file: Path) -> Unit:
    values, identity = _table(document.get("attributes")), _table(document.get("identity"))
    listed = document.get("read_only")
    if not values or not all(isinstance(value, str | int | float | bool) for value in values.values()):
        raise ConfigError(str(file), "takes a table of plain values", key="attributes")
    for name in values:
        _refuse_secret(name, file)
    facts = frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()
    return Unit(str(document.get("name") or file.stem), {key: str(value) for key, value in identity.items()}, values, facts)


def _limit(name: str, value: object, file: Path) -> Limit:
    _refuse_secret(name, file)
    try:
        return limit_from_toml(value)
    except ValueError as error:
        raise ConfigError(str(file), str(error), key=name) from None


def _refuse_secret(name: str, file: Path) -> None:
    if holds_secret(name):
        raise ConfigError(str(file), "a password never stands in the file, and none is ever set: leave it out", key=name)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
