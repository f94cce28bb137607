"""BIOS settings in files: a one-off set to apply, and exports of whole machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.cli.documents import read_document, write_document
from harness.errors import ConfigError
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
    """Write an export, whole or not at all. Raises UsageMistake where it cannot be written."""
    document = {
        "schema": SCHEMA,
        "name": unit.name,
        "identity": dict(unit.identity),
        "attributes": dict(sorted(unit.values.items())),
        "read_only": sorted(unit.facts),
        "redacted": list(unit.redacted),
    }
    write_document(document, file, force=force)


def _document(file: Path) -> dict[str, Any]:
    """A file of settings; what names a schema that is not read here is refused, whatever else it holds."""
    document = read_document(file)
    schema = document.get("schema", SCHEMA)
    is_platform = isinstance(document.get("bios"), Mapping) and schema == 1
    if schema != SCHEMA and not is_platform:
        shown = ascii(schema) if isinstance(schema, str | int) else "no text"
        raise ConfigError(str(file), f"{shown[:80]} is not known here; an export has {SCHEMA!r}", key="schema")
    return document


def _unit(document: Mapping[str, Any], file: Path) -> Unit:
    values, identity = _table(document.get("attributes")), document.get("identity", {})
    name, read_only = document.get("name", file.stem), document.get("read_only", [])
    if not values or not all(isinstance(value, str | int | float | bool) for value in values.values()):
        raise ConfigError(str(file), "takes a table of plain values", key="attributes")
    if not isinstance(name, str):
        raise ConfigError(str(file), "takes a text", key="name")
    if not isinstance(identity, Mapping) or not all(isinstance(value, str) for value in identity.values()):
        raise ConfigError(str(file), "takes a table of texts", key="identity")
    if not isinstance(read_only, list) or not all(isinstance(value, str) for value in read_only):
        raise ConfigError(str(file), "takes a list of names", key="read_only")
    for setting in values:
        _refuse_secret(setting, file)
    return Unit(name or file.stem, dict(identity), values, frozenset(read_only))


def _limit(name: str, value: object, file: Path) -> Limit:
    _refuse_secret(name, file)
    try:
        return limit_from_toml(value)
    except (ValueError, OverflowError) as error:
        raise ConfigError(str(file), str(error), key=name) from None
    except RecursionError:
        raise ConfigError(str(file), "its pattern is nested too deep", key=name) from None


def _refuse_secret(name: str, file: Path) -> None:
    if holds_secret(name):
        raise ConfigError(str(file), "a password never stands in the file, and none is ever set: leave it out", key=name)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
