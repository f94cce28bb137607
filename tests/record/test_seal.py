"""A record is sealed when its run has ended, and an edit shows."""

from __future__ import annotations

import hashlib
import shutil
import subprocess

import pytest

from harness.errors import BenchError
from harness.record.seal import SEAL_NAME, digest, read_seal, write_seal


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"seq":1,"kind":"run"}\n')
    return path


def test_a_seal_is_the_sum_of_the_file(record):
    write_seal(record)
    assert read_seal(record) == digest(record.read_bytes()) == hashlib.sha256(record.read_bytes()).hexdigest()


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum here")
def test_sha256sum_reads_the_seal_and_finds_an_edit(record):
    write_seal(record)
    command = ["sha256sum", "-c", SEAL_NAME]
    assert subprocess.run(command, cwd=record.parent, capture_output=True, check=False).returncode == 0
    record.write_bytes(record.read_bytes().replace(b"run", b"ruN"))
    assert subprocess.run(command, cwd=record.parent, capture_output=True, check=False).returncode == 1
    assert read_seal(record) != digest(record.read_bytes())


@pytest.mark.parametrize("text", ["", "abc", "abc  other.jsonl\n", "\x00\xff"])
def test_what_is_no_seal_is_none(record, text):
    record.with_name(SEAL_NAME).write_text(text)
    assert read_seal(record) == ""


def test_a_record_that_was_never_sealed_has_none(record):
    assert read_seal(record) == ""


def test_a_disk_that_refuses_is_one_line(tmp_path):
    with pytest.raises(BenchError, match="cannot seal the record: No such file"):
        write_seal(tmp_path / "results.jsonl")
