"""Two recordings of the same are the same however they were polled and timed; whatever the machine said otherwise is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import locator
from harness.errors import TapeError
from harness.ports import HttpQuestion
from harness.tape.diff import Tolerance, compare_tapes
from harness.tape.format import Tape
from harness.tape.states import State, compare, differing

TAPES = Path(str(locator.find_tape("model-lqd8360", None))).parent
MODEL, VIRTUAL = "model-lqd8360", "virtual-r640"
BIOS, BOOT = "session/bios.jsonl", "session/boot.jsonl"


def diff(one, other, **tolerance):
    return compare_tapes(Tape.open(one), Tape.open(other), Tolerance(**tolerance))


def copy(name, folder):
    return Path(shutil.copytree(TAPES / name, folder / "other"))


def edit(tape, file, change):
    path = next(iter(sorted(tape.glob(file))))
    text = path.read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


def swap(old, new, count=-1):
    return lambda text: text.replace(old, new, count)


def drop_last_line(text):
    return "".join(text.splitlines(keepends=True)[:-1])


def drop_writes(text):
    return "".join(line for line in text.splitlines(keepends=True) if '"effect": "act"' not in line)


def retime(tape, change):
    """Give each event of each track another time."""
    for path in sorted(tape.rglob("*.jsonl")):
        events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for event in events:
            event["t"], event["took"] = change(event["t"]), change(event.get("took", 0.0))
            if event["op"] == "rx":
                del event["took"]
        path.write_text("".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events), encoding="utf-8")


@pytest.mark.parametrize("name", [MODEL, VIRTUAL])
def test_a_tape_tells_the_same_as_itself(name):
    assert diff(TAPES / name, TAPES / name) == []


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(name=st.sampled_from([MODEL, VIRTUAL]), pace=st.floats(0.72, 1.38), late=st.floats(0.0, 2.0))
def test_times_within_the_tolerance_are_no_difference(name, pace, late):
    with TemporaryDirectory() as folder:
        other = copy(name, Path(folder))
        retime(other, lambda time: round(time * pace + late / 10, 3))
        assert diff(TAPES / name, other) == []


def test_times_beyond_the_tolerance_are_told_as_times(tmp_path):
    other = copy(MODEL, tmp_path)
    retime(other, lambda time: 3 * time)
    found = diff(TAPES / MODEL, other)
    assert found
    assert all(difference.what.startswith(("when it", "how long", "write")) for difference in found), found[0]
    assert diff(TAPES / MODEL, other, relative=3.0) == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (BIOS, "JID_681204407919", "JID_700000000001"),
        ("session/contact.jsonl", '"DateTime": "2026-01-0', '"DateTime": "2026-03-0'),
        ("bodies/host-dmesg@1.txt", "[    1.", "[    2."),
        (BOOT, "/dev/shm/bh.", "/dev/shm/bh.Q"),
        (BOOT, '"etag": "\\"', '"etag": "W/\\"'),
    ],
)
def test_what_only_counts_time_is_no_difference(tmp_path, file, old, new):
    other = copy(VIRTUAL, tmp_path)
    everywhere = {str(path.relative_to(other)) for path in other.rglob("*.json*") if file == BIOS and old in path.read_text()}
    for part in {file} | everywhere:
        edit(other, part, swap(old, new))
    assert diff(TAPES / VIRTUAL, other) == []


@pytest.mark.parametrize(
    "line",
    [
        "[    0.1] ..MP-BIOS bug: 8254 timer not connected to IO-APIC",
        "[    0.1] ....... works.",
        "[    0.2] APIC delta adjusted to PM-Timer: 6250354 (5248982)",
        "[    0.3] hrtimer: interrupt took 2 ns",
    ],
)
def test_a_kernel_that_was_slow_for_a_moment_is_no_difference(tmp_path, line):
    other = copy(VIRTUAL, tmp_path)
    edit(other, "bodies/host-dmesg@1.txt", lambda text: f"{line}\n{text}")
    assert diff(TAPES / VIRTUAL, other) == []


def test_boot_ids_are_told_apart_inside_a_recording_only(tmp_path):
    text = (TAPES / VIRTUAL / BOOT).read_text(encoding="utf-8")
    first, second = (json.loads(line)["stdout"].strip() for line in text.splitlines() if "boot_id" in line and '"stdout"' in line)
    other = copy(VIRTUAL, tmp_path)
    edit(other, BOOT, swap(second, second[::-1].replace("-", "0")[:8] + second[8:]))
    assert diff(TAPES / VIRTUAL, other) == []
    shutil.copy(TAPES / VIRTUAL / BOOT, other / BOOT)
    edit(other, BOOT, swap(second, first))
    assert [difference.what for difference in diff(TAPES / VIRTUAL, other)] == ["stdout"]


MUTATIONS = {
    "a width": (MODEL, "bodies/host-agent-pci@1.txt", swap('"current_width":16', '"current_width":8', 1), "current_width"),
    "a speed": (MODEL, "bodies/host-agent-pci@1.txt", swap('"current_speed":8.0', '"current_speed":5.0', 1), "current_speed"),
    "a BAR": (VIRTUAL, "bodies/host-agent-pci@1.txt", swap("549755813888,566935683071", "0,17179869183", 1), "resource"),
    "a driver": (VIRTUAL, "bodies/host-agent-pci@1.txt", swap('"driver":"nvme"', '"driver":""', 1), "driver"),
    "a part that is gone": (
        VIRTUAL,
        "bodies/host-agent-pci@1.txt",
        lambda text: text.replace('{"kind":"slot","name":"0-9"', "\n", 1),
        "",
    ),
    "a window": (VIRTUAL, "bodies/host-agent-pci@1.txt", swap("893353197567", "893353197566"), "end"),
    "a kernel": (VIRTUAL, "bodies/host-agent-pci@1.txt", swap("6.1.0-57", "6.1.0-58"), "kernel"),
    "a GPU's serial": (MODEL, "bodies/host-agent-nvml*@1.txt", swap("9990000000001", "9990000000031", 1), "serial"),
    "a GPU's uuid": (MODEL, "bodies/host-agent-nvml*@1.txt", swap("GPU-441b47bc", "GPU-541b47bc", 1), "uuid"),
    "an ECC mode": (MODEL, "bodies/host-agent-nvml*@1.txt", swap('"ecc":true', '"ecc":false', 1), "ecc"),
    "a P2P answer": (MODEL, "bodies/host-agent-p2p*@1.txt", swap('"peers":8', '"peers":7', 1), "peers"),
    "a fabric's owner": (MODEL, "bodies/fabric*@1.json", swap('"lanes": 16', '"lanes": 8', 1), "lanes"),
    "a kernel line": (VIRTUAL, "bodies/host-dmesg@1.txt", swap("root bus resource", "root bus ressource", 1), "stdout"),
    "a console line": (VIRTUAL, "bodies/console-rx@2.txt", swap("Linux version 6", "Linux version 7"), "a line of the stream"),
    "a status code": (MODEL, "session/contact.jsonl", swap('"status": 200', '"status": 403', 1), "status"),
    "a job's last state": (MODEL, BIOS, swap('"JobState": "Completed"', '"JobState": "Failed"'), "JobState"),
    "a job's message": (MODEL, BIOS, swap("PR19", "PR31"), "MessageId"),
    "the answer to a write": (MODEL, BIOS, swap('"status": 202', '"status": 200'), "write 1: status"),
    "a write's value": (MODEL, BIOS, swap('"OsWatchdogTimer": "Disabled"}}', '"OsWatchdogTimer": "Enabled"}}'), "write 1"),
    "a write's path": (MODEL, BOOT, swap('Actions/ComputerSystem.Reset", "effect"', 'Actions/Other.Reset", "effect"'), "write 1"),
    "writes that are missing": (MODEL, BIOS, drop_writes, "write 1"),
    "a read that is missing": (VIRTUAL, "session/pcie.jsonl", drop_last_line, "the read"),
    "a BIOS attribute": (MODEL, "bodies/bmc*Bios@1.json", swap('"Enabled"', '"Disabled"', 1), "Attributes"),
    "a firmware": (MODEL, "tape.toml", swap('"idrac" = "', '"idrac" = "9'), "identity.idrac"),
    "a source": (MODEL, "tape.toml", swap('source = "model"', 'source = "hardware"'), "source"),
    "a failure's kind": (MODEL, BOOT, swap('"kind": "Unreachable"', '"kind": "AuthRefused"'), "failed"),
    "a log's message": (MODEL, "bodies/*Lclog-Entries@1.json", swap("IDRAC.2.8.", "IDRAC.2.8.UEFI", 1), "Members"),
    "a power state": (MODEL, BOOT, swap('"PowerState": "On"', '"PowerState": "Off"'), "PowerState"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_whatever_the_machine_said_otherwise_is_told(tmp_path, mutation):
    name, file, change, told = MUTATIONS[mutation]
    other = copy(name, tmp_path)
    edit(other, file, change)
    found = diff(TAPES / name, other)
    assert any(told in difference.what for difference in found), [str(difference) for difference in found[:5]]
    assert all(len(str(difference)) < 600 and "\n" not in str(difference) for difference in found)


def test_the_difference_of_the_header_comes_first(tmp_path):
    found = diff(TAPES / MODEL, TAPES / VIRTUAL)
    assert str(found[0]) == 'header, source: "model" | "virtual-lab"'
    first = next(index for index, difference in enumerate(found) if difference.track)
    assert all(difference.track for difference in found[first:])


def test_a_track_that_only_one_has_is_one_difference(tmp_path):
    other = copy(MODEL, tmp_path)
    (other / "session/p2p.jsonl").unlink()
    assert [str(difference) for difference in diff(TAPES / MODEL, other)] == ["session/p2p, the track: recorded | not recorded"]


def watch(every):
    """A program that resets the machine and looks at power and POST until both are done."""

    def program(bench):
        system, post = (HttpQuestion.observe("GET", f"/redfish/v1/Systems/1{end}") for end in ("", "/Oem/Post"))
        bench.bmc.ask(HttpQuestion.act("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "On"}))
        look = bench.clock.until
        look(lambda: bench.bmc.ask(system).body, lambda body: body["PowerState"] == "On", what="on", every=every, within=500)
        look(lambda: bench.bmc.ask(post).body, lambda body: body["PostState"] == "OSBoot", what="post", every=every, within=500)

    return program


@pytest.mark.parametrize("every", [0.5, 3.0, 11.0])
def test_another_polling_interval_is_no_difference(record, every):
    one, _ = record(watch(2.0), costs=0.1)
    other, _ = record(watch(every), costs=0.1)
    assert diff(one, other) == []


def test_a_machine_that_is_slower_than_the_tolerance_is_told(record):
    one, _ = record(watch(2.0), costs=0.1)
    other, _ = record(watch(2.0), costs=0.1, power_at=120.0, post_at=130.0)
    found = diff(one, other)
    assert [difference.what.split(" {")[0] for difference in found] == ["when it became", "when it became"]
    assert diff(one, other, absolute=100.0) == []


@pytest.mark.parametrize(("states", "is_told"), [("abc", False), ("ac", False), ("ab", True), ("axc", True), ("acb", True)])
def test_only_what_progresses_may_be_skipped(states, is_told):
    values = {
        "a": {"PercentComplete": 0},
        "b": {"PercentComplete": 50},
        "c": {"PercentComplete": 100},
        "x": {"PercentComplete": -1},
    }
    one, other = (
        [State(values[name], (10.0 * at,)) for at, name in enumerate(names)] for names in ("abc", states)
    )  # fmt: skip
    assert bool(list(compare(one, other, Tolerance()))) is is_told


def test_long_texts_are_shown_where_they_differ():
    odds = next(differing({"stdout": "a" * 500 + "b"}, {"stdout": "a" * 500 + "c"}))
    assert (odds.what, odds.one[-3:], odds.other[-3:]) == ("stdout", 'ab"', 'ac"')
    assert len(odds.one) < 100


def test_what_lasted_longer_than_the_other_looked_away_is_told():
    one = [State("off", (0.0,)), State({"failed": "Unreachable"}, tuple(map(float, range(5, 90)))), State("on", (95.0,))]
    other = [State("off", (0.0, 20.0, 40.0, 60.0, 80.0)), State("on", (92.0,))]
    assert [odds.other for odds in compare(one, other, Tolerance())] == ["never seen"]
    assert list(compare(one, [other[0], State("on", (200.0,))], Tolerance(absolute=120.0))) == []


def test_a_damaged_tape_is_an_error_of_the_tape(tmp_path):
    other = copy(MODEL, tmp_path)
    (other / BOOT).write_text("{")
    with pytest.raises(TapeError, match=r"boot\.jsonl:1: the last line is cut off"):
        diff(TAPES / MODEL, other)
