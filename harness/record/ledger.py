"""The ledger: the one writer of results.jsonl. A line is written whole or not at all, and never changed afterwards."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from harness.errors import BenchError, BringupError, UsageMistake
from harness.limits import Limit
from harness.measurement import Measurement
from harness.record.lines import TIMES, VOCABULARY, ordered

_DEPTH = 16
"""Nesting below this is written as text: no line of ours is deeper, and a list that holds itself has no end."""


class Ledger:
    """Appends lines to ``path``, which must not exist yet; the file is made by the first line.

    ``mask`` sees every string value, at any depth, before it is written, but for the record's own words (lines.VOCABULARY).
    Values JSON does not know become their text. All verbs raise BenchError with one line when the disk refuses, and leave no
    half line behind.
    """

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        self._path = path
        self._mask = mask
        self._file: int | None = None
        self._closed = False
        self._seq = 0

    @property
    def path(self) -> Path:
        """Where the record is."""
        return self._path

    def write(self, kind: str, /, **fields: Any) -> None:
        """Append one line. Raises UsageMistake where ``path`` holds a record already."""
        if self._closed:
            raise BringupError(f"{self._path}: the record is closed; a {kind} line came too late")
        line = {"seq": self._seq + 1, "kind": kind}
        for key, value in ordered(kind, fields).items():
            if key in TIMES and isinstance(value, float):
                value = round(value, 6)  # noqa: PLW2901 - the same value, shorter
            line.setdefault(key, _word(value) if key in VOCABULARY else self._plain(value))
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        self._append(text.encode("utf-8"))
        self._seq += 1

    def measurement(self, measurement: Measurement, *, case: str, check: str) -> None:
        """Append what was measured, judged against its limit."""
        self.write(
            "measurement",
            case=case,
            check=check,
            name=measurement.name,
            value=measurement.value,
            unit=measurement.unit,
            limit=None if measurement.limit is None else str(measurement.limit),
            bounds=None if measurement.limit is None else _bounds(measurement.limit),
            outcome=measurement.outcome.value,
            margin=None if measurement.margin is None else round(measurement.margin, 9),
            part=None if measurement.part is None else vars(measurement.part),
            at=measurement.at,
            note=measurement.note,
        )

    def checkpoint(self) -> None:
        """Have the disk keep what was written so far, even if the power fails now."""
        if self._file is not None:
            with self._complaint():
                os.fsync(self._file)

    def close(self) -> None:
        """Keep everything and let go of the file. Closing twice is harmless."""
        self._closed = True
        file, self._file = self._file, None
        if file is not None:
            with self._complaint():
                try:
                    os.fsync(file)
                finally:
                    os.close(file)

    def _append(self, data: bytes) -> None:
        with self._complaint():
            if self._file is None:
                self._file = self._create()
            size = os.fstat(self._file).st_size
            try:
                complete = os.write(self._file, data) == len(data)
            except OSError:
                self._cut(size)
                raise
            if not complete:
                self._cut(size)
                raise BenchError(f"{self._path}: the disk took only a part of a line; make room and run again")

    def _create(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise UsageMistake(f"{self._path}: holds a record already; a run needs a folder of its own") from None

    def _cut(self, size: int) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)

    @contextlib.contextmanager
    def _complaint(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BenchError(f"{self._path}: cannot write the record: {error.strerror or error}") from None

    def _plain(self, value: object, depth: int = 0) -> Any:
        """``value`` as JSON knows it, masked; sets are sorted, so that two replays write the same."""
        if type(value) is str:  # most values by far
            return _utf8(self._mask(_utf8(value)))
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if depth < _DEPTH:
            if isinstance(value, Mapping):
                return {
                    _text(key): _word(inner) if key in VOCABULARY and isinstance(inner, str) else self._plain(inner, depth + 1)
                    for key, inner in value.items()
                }
            if isinstance(value, list | tuple):
                return [self._plain(inner, depth + 1) for inner in value]
            if isinstance(value, Set):
                return [self._plain(inner, depth + 1) for inner in sorted(value, key=_text)]
        return _utf8(self._mask(_text(value)))


def _bounds(limit: Limit) -> dict[str, Any]:
    bounds: dict[str, Any] = {"kind": limit.kind, "values": list(limit.bounds)}
    return bounds | {"within": limit.within} if limit.within else bounds


def _word(value: object) -> Any:
    """A word of the record, or a list of them, as it is."""
    if isinstance(value, list | tuple):
        return [_text(each) for each in value]
    return None if value is None else _text(value)


def _text(value: object) -> str:
    """The text of anything, even of what cannot say it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    try:
        return _utf8(str(value))
    except Exception:  # somebody else's __str__ may raise anything, and the line must be written
        return f"<{type(value).__name__} without a text>"


def _utf8(text: str) -> str:
    """Half a surrogate pair, which UTF-8 cannot hold, becomes a visible escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
