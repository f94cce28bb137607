"""Copies of a tape in which one recorded answer says something else."""

import json

import pytest

from harness.ports import Effect
from harness.tape.events import CommandReply, Exchange, HttpReply
from harness.tape.format import Tape, TapeInfo, write_tape
from harness.tape.mutants import GONE, STATUS, TEXT, Rule, find_mutants, write_mutant

INFO = TapeInfo("bench", "platform", "model", "2026-01-01T00:00:00+00:00", "1", stages=("bmc",), lanes=("bmc", "host"))
GPUS = [{"kind": "gpu", "index": index, "width": 16} for index in range(4)]
PRINTED = "".join(f"{json.dumps(line)}\n" for line in ({"kind": "hello"}, *GPUS, {"kind": "end", "lines": 5}))
JOBS = {"Members": [{"Id": "JID_1", "JobState": "Completed"}, {"Id": "JID_2", "JobState": "Scheduled"}]}


@pytest.fixture
def tape(tmp_path):
    def answer(reply, lane, op, key, effect=Effect.OBSERVE):
        return Exchange(0.0, lane, op, key, effect, None, 0.1, reply)

    events = [
        answer(HttpReply(200, {}, JOBS), "bmc", "GET", "/Jobs"),
        answer(HttpReply(202, {}, JOBS), "bmc", "PATCH", "/Jobs", Effect.ACT),
        answer(CommandReply(0, PRINTED, ""), "host", "run", "agent nvml"),
        answer(CommandReply(0, "one\ntwo\n", ""), "host", "run", "dmesg"),
    ]
    write_tape(tmp_path / "tape", INFO, {"session/x": events})
    return Tape.open(tmp_path / "tape")


def rule(lane, key, place, change):
    return Rule("rule", lane, key, place, change)


def mutated(tape, folder, *rules, most=9):
    """The replies of each mutant's changed answer."""
    mutants, _ = find_mutants(tape, rules, most=most)
    replies = []
    for number, mutant in enumerate(mutants):
        write_mutant(tape, mutant, folder / str(number))
        changed = Tape.open(folder / str(number))
        replies.append(changed.events("session/x")[mutant.event].reply)
        others = [event for at, event in enumerate(changed.events("session/x")) if at != mutant.event]
        assert others == [event for at, event in enumerate(tape.events("session/x")) if at != mutant.event]
    return replies


def test_each_place_in_a_list_is_a_mutant_of_its_own(tape, tmp_path):
    first, second = mutated(tape, tmp_path, rule("bmc", "/Jobs", r"Members.\*.JobState", lambda _: "Failed"))
    assert [job["JobState"] for job in first.body["Members"]] == ["Failed", "Scheduled"]
    assert [job["JobState"] for job in second.body["Members"]] == ["Completed", "Failed"]


def test_what_a_change_leaves_as_it_is_makes_no_mutant(tape, tmp_path):
    change = {"Completed": "Failed"}
    (only,) = mutated(tape, tmp_path, rule("bmc", "/Jobs", r"Members.\*.JobState", lambda told: change.get(told, told)))
    assert only.body["Members"][0]["JobState"] == "Failed"


def test_a_write_is_never_changed(tape):
    mutants, idle = find_mutants(tape, [rule("bmc", "/Jobs", STATUS, lambda status: 500 if status == 202 else status)], most=9)
    assert mutants == []
    assert len(idle) == 1


def test_a_line_of_a_worker_is_changed_or_left_out_and_the_count_at_the_end_follows(tape, tmp_path):
    (narrow, *_) = mutated(tape, tmp_path / "a", rule("host", "agent nvml", "gpu.width", lambda _: 8))
    assert [json.loads(line).get("width") for line in narrow.stdout.splitlines()] == [None, 8, 16, 16, 16, None]
    (missing, *_) = mutated(tape, tmp_path / "b", rule("host", "agent nvml", "gpu", lambda _: GONE))
    lines = [json.loads(line) for line in missing.stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["hello", "gpu", "gpu", "gpu", "end"]
    assert lines[-1]["lines"] == 4


def test_status_and_text_of_a_command_are_places_too(tape, tmp_path):
    (failed,) = mutated(tape, tmp_path / "a", rule("host", "dmesg", STATUS, lambda _: 1))
    assert (failed.status, failed.stdout) == (1, "one\ntwo\n")
    (longer,) = mutated(tape, tmp_path / "b", rule("host", "dmesg", TEXT, lambda log: f"{log}three\n"))
    assert longer.stdout == "one\ntwo\nthree\n"


def test_a_few_mutants_are_the_first_the_last_and_some_between(tape):
    mutants, _ = find_mutants(tape, [rule("host", "agent nvml", "gpu.width", lambda _: 8)], most=2)
    assert [mutant.path[1] for mutant in mutants] == [1, 4]
    mutants, _ = find_mutants(tape, [rule("host", "agent nvml", "gpu.width", lambda _: 8)], most=3)
    assert [mutant.path[1] for mutant in mutants] == [1, 3, 4]


def test_a_mutant_says_in_a_line_what_was_changed(tape):
    ((mutant, *_), _) = find_mutants(tape, [rule("host", "agent nvml", "gpu.width", lambda _: 8)], most=1)
    assert str(mutant) == "rule: session/x: agent nvml: line.4.gpu.width 16 -> 8"
