"""Files that a person names: read whole or refused in one line, written whole or not at all.

named ─▶ a plain file ─▶ of a sane size ─▶ UTF-8 ─▶ TOML or JSON, each key once ─▶ plain values, not too deep ─▶ a table
"""

from __future__ import annotations

import json
import math
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import ConfigError, UsageMistake
from harness.files import kind_of_file, read_plain
from harness.toml import parse_toml

DEEPEST = 16
"""Tables and lists in one another; settings need four."""

_WIDEST = 64
"""Bits of the largest whole number; no setting needs more."""

_HALF = re.compile("[\ud800-\udfff]")


def read_document(file: Path) -> dict[str, Any]:
    """The table in a TOML file, or in a JSON file by its ending. Raises UsageMistake for no file, ConfigError for a bad one."""
    is_json = file.suffix.lower() == ".json"
    text = read_plain(file)
    try:
        document = _from_json(text) if is_json else parse_toml(text)
    except RecursionError:
        raise ConfigError(str(file), f"is nested deeper than {DEEPEST} tables and lists") from None
    except ValueError as error:
        raise ConfigError(str(file), f"is not {'JSON' if is_json else 'TOML'}: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(str(file), "takes a table of settings")
    for objection in _objections(document):
        raise ConfigError(str(file), objection)
    return document


def check_target(file: Path, *, force: bool) -> None:
    """Raise UsageMistake where ``file`` could not be written: only a plain file is ever replaced, and only with ``force``."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise UsageMistake(f"cannot write {file}: {error.strerror}") from None
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise UsageMistake(f"{file} is {kind_of_file(found.st_mode)}, and only a plain file is written over; name another one")
    if found is not None and not force:
        raise UsageMistake(f"{file} exists; --force overwrites it")
    if not file.parent.is_dir():
        raise UsageMistake(f"no folder {file.parent}; make it first")


def write_document(document: Mapping[str, Any], file: Path, *, force: bool) -> None:
    """Write JSON, whole or not at all. Raises UsageMistake where that cannot be, or where ``check_target`` does."""
    check_target(file, force=force)
    fresh = file.with_name(f".bringup-{secrets.token_hex(8)}")
    try:
        with fresh.open("x", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(json.dumps(document, indent=2) + "\n")
        fresh.replace(file)
    except OSError as error:
        raise UsageMistake(f"cannot write {file}: {error.strerror}") from None
    finally:
        fresh.unlink(missing_ok=True)


def _from_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_table_of, parse_constant=_refuse_number)


def _table_of(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A table in which each key stands once: which of two were meant nobody can tell."""
    table = dict(pairs)
    if len(table) != len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!a} stands there twice")
    return table


def _refuse_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _objections(document: Mapping[str, Any]) -> Iterator[str]:
    """What both languages can say and nobody can mean; looked for without recursion."""
    left: list[tuple[str, Any, int]] = [("", document, 0)]
    while left:
        name, value, depth = left.pop()
        where = f"{name!a}: " if name else ""
        if depth > DEEPEST:
            yield f"is nested deeper than {DEEPEST} tables and lists"
            return
        match value:
            case str() if _HALF.search(value):
                yield f"{where}holds half a character (a lone surrogate)"
            case bool():
                pass
            case int() if value.bit_length() > _WIDEST:
                yield f"{where}is a number of more than {_WIDEST} bits"
            case float() if not math.isfinite(value):
                yield f"{where}{value} is no number"
            case dict():
                if any(_HALF.search(key) for key in value):
                    yield f"{where}a name holds half a character (a lone surrogate)"
                left += [(key, each, depth + 1) for key, each in value.items()]
            case list():
                left += [(name, each, depth + 1) for each in value]
