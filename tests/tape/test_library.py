import os

import pytest

from harness.errors import BenchError, TapeError
from harness.ports import Effect
from harness.tape import library
from harness.tape.events import Exchange, HttpReply
from harness.tape.format import Tape, write_tape
from harness.tape.library import replace_tape


def tape_of(info, body):
    event = Exchange(0.0, "bmc", "GET", "/x", Effect.OBSERVE, None, 0.0, HttpReply(200, {}, body))
    return lambda folder: write_tape(folder, info, {"session/x": [event]})


def body_of(folder):
    return Tape.open(folder).events("session/x")[0].reply.body


@pytest.fixture
def target(tmp_path, info):
    """A tape that is there already."""
    folder = tmp_path / "tapes" / "toy"
    replace_tape(folder, tape_of(info, "old"))
    return folder


def left_over(target):
    return sorted(path.name for path in target.parent.iterdir())


@pytest.fixture(params=["exchange", "renames"])
def way(request, monkeypatch):
    """With the kernel's exchange, and on a system that has none."""
    if request.param == "renames":
        monkeypatch.setattr(library, "_swap", lambda one, other: False)
    return request.param


def test_a_tape_is_replaced_whole(target, info, way):
    assert body_of(target) == "old"
    replace_tape(target, tape_of(info, "new"))
    assert body_of(target) == "new"
    assert left_over(target) == ["toy"]


def test_this_system_exchanges_folders_in_one_step(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    if not library._swap(tmp_path / "a", tmp_path / "b"):
        pytest.skip("no renameat2 with RENAME_EXCHANGE here")
    assert ((tmp_path / "a" / "b").is_file(), (tmp_path / "b" / "a").is_file()) == (True, True)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), TapeError("odd"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_of_writing_leaves_the_old_tape(target, info, error):
    def write(folder):
        tape_of(info, "new")(folder)
        raise error

    with pytest.raises((BenchError, TapeError, KeyboardInterrupt)) as caught:
        replace_tape(target, write)
    if isinstance(error, OSError):
        assert "cannot replace the tape" in str(caught.value)
        assert "No space left on device" in str(caught.value)
    assert body_of(target) == "old"
    assert left_over(target) == ["toy"]


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_failure_in_the_last_steps_leaves_the_old_tape(target, info, monkeypatch, step):
    def refuse(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(library, "_swap", lambda one, other: False)
    if step == "fsync":
        monkeypatch.setattr(library.os, "fsync", refuse)
    else:
        rename, renamed = type(target).rename, []

        def second_fails(path, to):
            renamed.append(path)
            return refuse() if len(renamed) == 2 else rename(path, to)

        monkeypatch.setattr(type(target), "rename", second_fails)
    with pytest.raises(BenchError, match="Input/output error; the old one is as it was"):
        replace_tape(target, tape_of(info, "new"))
    assert body_of(target) == "old"
    assert left_over(target) == ["toy"]


def test_a_tape_with_a_finding_is_not_put_in_place(target, info):
    with pytest.raises(TapeError, match=r"was not put into .*session/x.jsonl:1: body.Password is not redacted"):
        replace_tape(target, tape_of(info, {"Password": "hunter22"}))
    assert body_of(target) == "old"
    assert left_over(target) == ["toy"]


def test_a_folder_that_is_no_tape_is_left_alone(tmp_path, info):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    with pytest.raises(TapeError, match="not a tape"):
        replace_tape(tmp_path / "home", tape_of(info, "new"))
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for other in (tmp_path / "link", tmp_path / "home" / "thesis.txt"):
        with pytest.raises(TapeError, match="is no folder"):
            replace_tape(other, tape_of(info, "new"))
    assert (tmp_path / "home" / "thesis.txt").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_a_bench_error(target, info):
    target.parent.chmod(0o555)
    try:
        with pytest.raises(BenchError, match="Permission denied"):
            replace_tape(target, tape_of(info, "new"))
    finally:
        target.parent.chmod(0o755)
    assert body_of(target) == "old"
