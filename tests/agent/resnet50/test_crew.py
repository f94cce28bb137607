import os
import sys
from pathlib import Path

import pytest

from harness.agent.resnet50 import crew as module
from harness.agent.resnet50.crew import Crew
from harness.agent.trouble import Trouble

SPEAK = """
import json, os, signal, sys, time
rank = int(os.environ["RANK"])
def say(kind, **fields): print(json.dumps(dict(fields, kind=kind)), flush=True)
say("ready", pid=os.getpid(), folder=os.environ["RESNET50_FOLDER"])
"""


@pytest.fixture
def crew_of(monkeypatch):
    """A crew whose ranks are small programs without PyTorch."""

    def make(program, ranks=2):
        monkeypatch.setattr(module, "rank_command", lambda: [sys.executable, "-S", "-c", SPEAK + program])
        return Crew(ranks, dict(os.environ))

    return make


def hear(crew):
    """Everything that is said, and the trouble it ended with."""
    heard = []
    with crew:
        try:
            heard += crew.listen()
        except Trouble as trouble:
            return heard, trouble
    return heard, None


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def nothing_is_left(heard):
    ready = [said for _, said in heard if said["kind"] == "ready"]
    return not any(is_running(said["pid"]) or Path(said["folder"]).exists() for said in ready)


def test_what_all_ranks_say_comes_with_their_numbers(crew_of):
    heard, trouble = hear(crew_of('say("rank", hash=str(rank)); say("done")', ranks=3))
    assert trouble is None
    assert sorted((rank, said["hash"]) for rank, said in heard if said["kind"] == "rank") == [(0, "0"), (1, "1"), (2, "2")]
    assert nothing_is_left(heard)


def test_a_rank_gets_what_it_is_told(crew_of):
    with crew_of('say("heard", line=sys.stdin.readline()); say("done")') as crew:
        crew.tell({"batch": 4})
        assert [said["line"] for _, said in crew.listen() if said["kind"] == "heard"] == ['{"batch": 4}\n'] * 2


def test_the_rank_that_a_signal_ended_is_named_not_the_one_that_complains_of_it(crew_of):
    program = """
if rank == 1:
    say("progress")
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.readline() if rank == 2 else time.sleep(0.5)
say("trouble", what="rank 0", why="connection closed by peer", do="")
sys.exit(1)
"""
    heard, trouble = hear(crew_of(program, ranks=3))
    assert (trouble.what, trouble.why) == ("rank 1", "its process was ended by SIGKILL after progress")
    assert "out-of-memory" in trouble.do
    assert nothing_is_left(heard)


def test_a_rank_that_says_its_trouble_is_quoted(crew_of):
    program = 'say("trouble", what="rank 1", why="no memory", do="less") if rank else sys.stdin.readline()'
    heard, trouble = hear(crew_of(program))
    assert str(trouble) == "rank 1: no memory; less"
    assert nothing_is_left(heard)


def test_a_rank_that_ends_early_is_named_with_its_last_words(crew_of):
    program = 'sys.exit("libfoo.so.2: cannot open") if rank else sys.stdin.readline()'
    heard, trouble = hear(crew_of(program))
    assert (trouble.what, trouble.why) == (
        "rank 1",
        "its process ended early (exit status 1) after ready: libfoo.so.2: cannot open",
    )
    assert nothing_is_left(heard)


def test_ranks_that_say_nothing_are_named_and_ended(crew_of, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 2.0)
    heard, trouble = hear(crew_of('say("done") if rank == 0 else sys.stdin.readline()'))
    assert (trouble.what, trouble.why) == ("ranks", "none has said anything for 2 s: rank 1 after ready")
    assert nothing_is_left(heard)


def test_a_crew_that_is_left_early_is_ended(crew_of):
    with crew_of("sys.stdin.readline()") as crew:
        heard = [next(listening := crew.listen()), next(listening)]
        assert all(is_running(said["pid"]) for _, said in heard)
    assert nothing_is_left(heard)


def test_a_python_that_cannot_be_started_is_one_line(monkeypatch):
    monkeypatch.setattr(module, "rank_command", lambda: ["/nonexistent/python"])
    with pytest.raises(Trouble, match="rank processes: they cannot be started"), Crew(2, {}):
        pass
