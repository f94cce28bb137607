"""A file of settings is read whole or refused in one line, and written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pytest

from harness.cli.attributes import read_attributes, read_unit
from harness.cli.documents import DEEPEST, check_target, read_document, write_document
from harness.errors import ConfigError, UsageMistake
from harness.files import LARGEST

DEEP = 100_000


def refused(file, says, read=read_attributes):
    with pytest.raises(UsageMistake, match=re.escape(says)) as raised:
        read(file)
    assert "\n" not in str(raised.value)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("deep.json", '{"A":' + "[" * DEEP + "]" * DEEP + "}", "is nested deeper than 16"),
        ("deep.json", '{"a":' * DEEP + "1" + "}" * DEEP, "is nested deeper than 16"),
        ("deep.toml", "A = " + "[" * DEEP + "]" * DEEP, "is not TOML: tables and lists are nested too deep"),
        ("deep.toml", ".".join("a" * DEEP) + " = 1", "line 1 has more than 100 dots"),
        ("deep.toml", ".".join("a" * 90) + " = 1", "is nested deeper than 16"),
        ("half.json", '{"Asset\\ud800Tag": "x"}', "a name holds half a character"),
        ("half.json", '{"AssetTag": "x\\udc00"}', "'AssetTag': holds half a character"),
        ("half.json", '{"A": {"one_of": ["x", "\\udc00"]}}', "'one_of': holds half a character"),
        ("twice.json", '{"A": "Enabled", "B": 1, "A": "Disabled"}', "'A' stands there twice"),
        ("twice.json", '{"attributes": {"A": 1, "A": 1}}', "'A' stands there twice"),
        ("twice.toml", "A = 1\nA = 2\n", "is not TOML"),
        ("nan.json", '{"A": NaN}', "NaN is no number"),
        ("nan.json", '{"A": -Infinity}', "-Infinity is no number"),
        ("nan.json", '{"A": 1e999}', "'A': inf is no number"),
        ("nan.toml", "A = nan", "'A': nan is no number"),
        ("nan.toml", "A = { at_least = -inf }", "'at_least': -inf is no number"),
        ("big.json", '{"A": 1' + "0" * 5000 + "}", "is not JSON"),
        ("big.json", '{"A": 1' + "0" * 400 + "}", "'A': is a number of more than 64 bits"),
        ("big.toml", "A = 0x1" + "0" * 9000, "'A': is a number of more than 64 bits"),
        ("date.toml", "A = 2020-01-01", "takes a word, a number or a limit table"),
        ("pattern.toml", 'A = { matches = "a{99999999999}" }', "too large"),
        ("pattern.toml", 'A = { matches = "' + "(" * 2000 + '" }', "nested too deep"),
        ("schema.json", '{"schema": "bringup-bios-2", "attributes": {"A": 1}}', "schema: 'bringup-bios-2' is not known here"),
        ("schema.json", '{"schema": {"bringup-bios-1": 1}, "A": 1}', "schema: no text is not known here"),
        ("schema.toml", 'schema = 3\nA = "x"', "schema: 3 is not known here"),
        ("name.json", '{"schema": "bringup-bios-1", "name": [], "attributes": {"A": 1}}', "name: takes a text"),
        ("who.json", '{"schema": "bringup-bios-1", "identity": {"bios": {}}, "attributes": {"A": 1}}', "identity: takes a table"),
        (
            "facts.json",
            '{"schema": "bringup-bios-1", "read_only": [1], "attributes": {"A": 1}}',
            "read_only: takes a list of names",
        ),
        ("secret.json", '{"schema": "bringup-bios-1", "attributes": {"setuppassword": "x"}}', "setuppassword: a password never"),
    ],
)
def test_what_nobody_can_mean_is_refused(tmp_path, name, text, says):
    file = tmp_path / name
    file.write_text(text)
    refused(file, says)


def test_a_table_as_deep_as_may_be_is_read(tmp_path):
    file = tmp_path / "a.json"
    file.write_text('{"a":' * DEEPEST + "1" + "}" * DEEPEST)
    assert read_document(file)["a"]
    file.write_text('{"a":' * (DEEPEST + 2) + "1" + "}" * (DEEPEST + 2))
    refused(file, "is nested deeper")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    file = tmp_path / "a.toml"
    file.write_bytes(b'A = "\xff"')
    refused(file, "not UTF-8 text")


def test_a_huge_file_is_refused_without_being_read_whole(tmp_path):
    file = tmp_path / "a.toml"
    with file.open("wb") as stream:
        stream.truncate(LARGEST * 1024)  # sparse: 4 GiB
    refused(file, "has more than 4 MiB")


def special(kind, folder):
    """A thing of that kind, which is no plain file."""
    path = folder / "it.json"
    match kind:
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path.symlink_to("/dev/zero")
        case "a socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(os.path.relpath(path))
        case "a link":
            (folder / "behind.json").write_text("kept")
            path.symlink_to(folder / "behind.json")
        case "a link to nothing":
            path.symlink_to(folder / "nothing.json")
    return path


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a device"])
@pytest.mark.parametrize("read", [read_attributes, read_unit])
def test_what_is_no_plain_file_is_neither_read_nor_waited_for(tmp_path, kind, read):
    refused(special(kind, tmp_path), f"it is {kind}, and a plain file is needed", read)


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a socket", "a link", "a link to nothing"])
def test_only_a_plain_file_is_ever_written_over(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = special(kind, tmp_path)
    before = sorted(tmp_path.iterdir())
    for force in (True, False):
        with pytest.raises(UsageMistake, match=rf"is {kind.removesuffix(' to nothing')}, and only a plain file is written over"):
            write_document({"A": 1}, file, force=force)
    assert sorted(tmp_path.iterdir()) == before
    assert not (tmp_path / "behind.json").exists() or (tmp_path / "behind.json").read_text() == "kept"


def test_a_plain_file_is_written_over_with_force_alone(tmp_path):
    file = tmp_path / "a.json"
    write_document({"A": 1}, file, force=False)
    with pytest.raises(UsageMistake, match="exists; --force overwrites it"):
        write_document({"A": 2}, file, force=False)
    write_document({"A": "\ud800"}, file, force=True)
    assert json.loads(file.read_text()) == {"A": "\ud800"}
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["/dev/null", "."])
def test_a_device_and_the_working_folder_are_no_targets(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageMistake, match="only a plain file is written over"):
        check_target(Path(name), force=True)


def test_what_the_system_refuses_names_the_file_that_was_asked_for(tmp_path):
    file = tmp_path / ("a" * 300)
    with pytest.raises(UsageMistake, match=r"cannot write .*aaa: File name too long"):
        write_document({}, file, force=True)
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        read_document(file)
    plain = tmp_path / "plain"
    plain.write_text("")
    with pytest.raises(UsageMistake, match=r"cannot write .*plain/a: Not a directory"):
        write_document({}, plain / "a", force=True)


def test_a_disk_that_is_full_leaves_neither_half_a_file_nor_the_name_of_another(tmp_path, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageMistake, match=r"^cannot write [^ ]*/a\.json: No space left on device$"):
        write_document({"A": 1}, tmp_path / "a.json", force=True)
    assert list(tmp_path.iterdir()) == []
