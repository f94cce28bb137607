"""``bringup bundle``: one archive of a run, to be mailed: everything in its folder, redacted once more, with a list of checksums.

    RUN.tar.gz
      RUN/results.jsonl, junit.xml, report.html, evidence/..., tape/...
      RUN/manifest.json     what is in it, what was left out and why

The same folder gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.errors import UsageMistake
from harness.record.reader import read_record
from harness.tape.redact import Redactor

MANIFEST = "manifest.json"
SCHEMA = 1
MOST = 64 * 1024 * 1024
"""Bytes of one file; a larger one is left out, and the manifest says so."""

_TEXTS = frozenset({".jsonl", ".json", ".xml", ".html", ".txt", ".log", ".toml", ".md", ".csv", ".prom", ".svg"})


@dataclass(frozen=True)
class Bundled:
    """The archive that was written, with how many files are in it and what was left out, by name and reason."""

    file: Path
    count: int
    left_out: tuple[tuple[str, str], ...]


def bundle(folder: Path, target: Path, *, force: bool = False) -> Bundled:
    """Write the archive whole or not at all.

    Raises UsageMistake where the folder holds no run, where the archive exists and ``force`` is not given, or is no plain file.
    """
    folder = folder.resolve()
    record = read_record(folder)
    _insist_on_room(target, force=force)
    contents, left_out = _contents(folder)
    manifest = {
        "schema": SCHEMA,
        "run": folder.name,
        "bench": record.run.bench,
        "source": record.run.source,
        "verdict": record.end.verdict if record.end is not None else "UNFINISHED",
        "harness": harness.__version__,
        "files": [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()
        ],
        "left_out": [{"name": name, "why": why} for name, why in left_out],
    }
    contents[MANIFEST] = (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()
    _write(target, _archive(folder.name, contents))
    return Bundled(target, len(contents), tuple(left_out))


def _insist_on_room(target: Path, *, force: bool) -> None:
    if not target.parent.is_dir():
        raise UsageMistake(f"there is no folder {target.parent}")
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise UsageMistake(f"{target} is no plain file; name another one with --output")
    if target.exists() and not force:
        raise UsageMistake(f"{target} exists; --force overwrites it")


def _contents(folder: Path) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    """The files by name, redacted, and what is left out."""
    contents: dict[str, bytes] = {}
    left_out: list[tuple[str, str]] = []
    redactor = Redactor()
    for path, name in _files(folder):
        if name == MANIFEST:
            continue
        if path.is_symlink() or not path.is_file():
            left_out.append((name, "no plain file"))
        elif path.stat().st_size > MOST:
            left_out.append((name, f"larger than {MOST // 1024 // 1024} MiB"))
        else:
            data = path.read_bytes()
            contents[name] = _redacted(data, redactor) if path.suffix in _TEXTS else data
    return contents, left_out


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path, path.relative_to(folder).as_posix()


def _redacted(data: bytes, redactor: Redactor) -> bytes:
    """A text without secrets. The record was written without them; what others have put beside it may not have been."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    return redactor.text(text).encode("utf-8")


def _archive(name: str, contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for inner, data in sorted(contents.items()):
            member = tarfile.TarInfo(f"{name}/{inner}")
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _write(target: Path, data: bytes) -> None:
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        fresh.write_bytes(data)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
