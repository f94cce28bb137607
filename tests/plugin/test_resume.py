"""Going on with a run that was killed: on this very machine, by the real adapters, and on records that say anything else."""

import json
import os
from contextlib import ExitStack
from dataclasses import replace
from datetime import date

import pytest

from harness import locator
from harness.devices.host import Host
from harness.errors import OwnershipError, UsageMistake
from harness.plugin.reach import reach_model
from harness.plugin.resumption import (
    Sight,
    carried_cases,
    carried_lines,
    carried_parts,
    copy_evidence,
    look,
    read_resumable,
    restore_gates,
    weigh,
)
from harness.plugin.waiving import Waiving
from harness.procedures.handover import NOTHING
from harness.procedures.stages import Gate, Gates
from harness.record.ledger import Ledger
from harness.record.reader import read_record
from harness.waivers import load_waivers

MIDDLE = """
import os
import pathlib
import signal
import time
import pytest


@pytest.mark.check("pcie.aaa")
def test_stopped(measure):
    if not pathlib.Path("survives").exists():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    measure("pcie.aaa", 1)
"""

CHECK = """
import os
import pathlib
import signal
import pytest


@pytest.mark.check("own.last")
def test_the_last_one(measure):
    if not pathlib.Path("survives").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    measure("own.last", 1)
"""


@pytest.fixture
def killed(bringup, tmp_path):
    """A run of the PCIe stage on this machine, and of a check of its own in which it is killed; then what kills is gone."""
    folder = tmp_path / "lab"
    assert bringup("bench", "new", "--from-live", "local", folder=folder).status == 0
    (folder / "checks").mkdir()
    (folder / "checks" / "test_last.py").write_text(CHECK)
    done = bringup("run", "--bench", "local", "--live", "--suite", "checks", folder=folder)
    assert done.status == -9
    (folder / "survives").touch()
    return done


def go_on(bringup, killed, *more):
    before = set((killed.folder / "reports").iterdir())
    done = bringup("run", "--resume", killed.run_folder.name if not more else str(more[0]), *more[1:], folder=killed.folder)
    fresh = [path for path in (killed.folder / "reports").iterdir() if path not in before and not path.is_symlink()]
    return done, (read_record(fresh[0]) if fresh else None)


def test_a_killed_run_goes_on_after_its_last_finished_stage(bringup, killed):
    first = killed.run_folder
    old = read_record(first)
    text = (first / "results.jsonl").read_bytes()
    done, record = go_on(bringup, killed, "latest", "--suite", "checks")
    assert done.status in (0, 3), done.out + done.err
    assert record.run.resumed.run == old.run.id
    assert record.run.resumed.stages == ("pcie",)
    mine = {case.id: (case.outcome, case.message) for case in record.cases}
    assert {case.id: (case.outcome, case.message) for case in old.cases}.items() <= mine.items()
    assert len(mine) == len(record.cases) == len(old.cases) + 1
    assert mine["own.last"][0] == "passed"
    shown = " ".join(done.out.split())
    assert f"resumed from {old.run.id}: pcie carried over" in shown
    assert "pcie " not in done.out.split("\n", maxsplit=2)[2].split("PASSED")[0].split("INCOMPLETE")[0]
    assert (first / "results.jsonl").read_bytes() == text
    assert record.closed
    assert old.exhibits["pcie"] == record.exhibits["pcie"]


def test_a_platform_file_that_changed_voids_everything(bringup, killed):
    platform = killed.folder / "fixtures" / "platforms" / "local.toml"
    platform.write_text(platform.read_text() + "\n# reviewed\n")
    done, record = go_on(bringup, killed, killed.run_folder, "--suite", "checks")
    assert record.run.resumed.stages == ()
    assert "void of" in done.out
    assert "the platform file changed since" in " ".join(done.out.split())
    assert {case.stage for case in record.cases} == {"pcie", "own"}


@pytest.mark.slow
def test_a_waivers_file_that_the_run_did_not_have_voids_everything(bringup, killed, tmp_path):
    file = tmp_path / "waivers.toml"
    file.write_text("schema = 1\n")
    done, record = go_on(bringup, killed, killed.run_folder, "--suite", "checks", "--waivers", str(file))
    assert record.run.resumed.stages == ()
    assert "the waivers file changed since" in " ".join(done.out.split())


@pytest.mark.slow
def test_another_boot_voids_what_was_seen_in_the_one_before(bringup, killed):
    record = killed.run_folder / "results.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "exhibit" and line["name"] == "pcie":
            line["data"]["boot"] = "00000000-0000-4000-8000-000000000000"
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done, again = go_on(bringup, killed, killed.run_folder, "--suite", "checks")
    assert again.run.resumed.stages == ()
    assert "the machine restarted since (boot id 00000000-" in " ".join(done.out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--live",), "leave mode, --grow, --stage and --fault out"),
        (("--verify",), "leave mode"),
        (("--grow",), "leave mode"),
        (("--replay",), "leave mode"),
        (("--stage", "pcie"), "leave mode"),
        (("--bench", "model-lqd8360"), "was made on bench 'local', not on 'model-lqd8360'"),
    ],
)
def test_what_contradicts_the_run_is_refused(bringup, killed, words, says):
    done, record = go_on(bringup, killed, killed.run_folder, *words)
    assert (done.status, record) == (2, None)
    assert says in done.err


@pytest.fixture
def drafted(bringup, tmp_path):
    """A folder with a bench of this machine."""
    folder = tmp_path / "lab"
    assert bringup("bench", "new", "--from-live", "local", folder=folder).status == 0
    return folder


def test_a_stage_that_ctrl_c_hit_runs_again_whole(bringup, drafted):
    (drafted / "checks").mkdir()
    (drafted / "checks" / "test_middle.py").write_text(MIDDLE)
    stopped = bringup("run", "--bench", "local", "--live", "--suite", "checks", folder=drafted)
    assert stopped.status == 130
    old = read_record(stopped.run_folder)
    assert old.stage("pcie").state == "ended"
    assert old.unreached
    (drafted / "survives").touch()
    done, record = go_on(bringup, stopped, "latest", "--suite", "checks")
    assert record.run.resumed.stages == ()
    assert {case.id for case in record.cases} == {plan.id for plan in old.planned}, done.out + done.err


def test_a_run_whose_stages_all_hold_is_only_concluded(bringup, drafted):
    first = bringup("run", "--bench", "local", "--live", "--stage", "pcie", folder=drafted)
    file = first.run_folder / "results.jsonl"
    old = read_record(file)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))  # killed before the end line
    done, record = go_on(bringup, first, "latest")
    assert [case.id for case in record.cases] == [case.id for case in old.cases]
    assert (record.run.stages, record.run.resumed.stages, record.closed) == (("pcie",), ("pcie",), True)
    assert (done.status, record.end.verdict) == (first.status, old.end.verdict), done.out + done.err
    assert done.out.splitlines()[1] == f"resumed from {old.run.id}: pcie carried over"


@pytest.mark.slow
def test_what_the_killed_run_left_is_handed_over_by_the_one_that_does_not_look_again(bringup, killed):
    first = killed.run_folder
    lines = (first / "results.jsonl").read_text().splitlines()
    left = {"seq": len(lines) + 1, "kind": "handover", "text": "JID_1 Scheduled: applies at the next reboot"}
    (first / "results.jsonl").write_text("".join(f"{line}\n" for line in [*lines, json.dumps(left)]))
    done, record = go_on(bringup, killed, first, "--suite", "checks")
    assert record.run.resumed.stages == ("pcie",)
    assert f"as run {first.name} left it: JID_1 Scheduled" in record.handovers[-1]
    told = f"{first.name} left on the machine: JID_1 Scheduled: applies at the next reboot"
    assert told in done.out.split("own ")[0], "before anything is done"


@pytest.mark.slow
def test_a_run_of_no_stage_does_not_become_one_of_all(bringup, killed):
    first = killed.run_folder
    lines = [json.loads(line) for line in (first / "results.jsonl").read_text().splitlines()]
    lines[0]["stages"] = []
    (first / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done, record = go_on(bringup, killed, first, "--suite", "checks")
    assert {case.stage for case in record.cases} == {"own"}, done.out + done.err


@pytest.mark.slow
def test_a_resumed_run_that_is_killed_is_gone_on_with_too(bringup, killed):
    first = read_record(killed.run_folder)
    (killed.folder / "survives").unlink()
    again, second = go_on(bringup, killed, "latest", "--suite", "checks")
    assert again.status == -9
    (killed.folder / "survives").touch()
    done, third = go_on(bringup, killed, "latest", "--suite", "checks")
    assert third.run.resumed.run == second.run.id
    assert third.run.resumed.stages == ("pcie",)
    names = [case.id for case in third.cases]
    assert len(names) == len(set(names)) == len(first.cases) + 1, done.out + done.err


# what is weighed, on records that the tests write

IDENTITY = {"service_tag": "ABC1234", "system": "PowerEdge R640", "bios": "2.21.2", "idrac": "7.00.00.182"}
BOOT = "11111111-2222-4333-8444-555555555555"
HERE = Sight(IDENTITY, BOOT, {"a/slot01": "0000:3b:00.0 10de:1e78", "a/slot02": "0000:3c:00.0 10de:1e78"})
STAGES = ("bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50")


@pytest.fixture
def run(tmp_path):
    """The record of a run that was killed in the stage p2p."""

    def make(*, mode="live", ended=("bmc", "bios", "boot", "pcie", "gpu"), more=(), end=None, lost=(), boot=BOOT, serials=None):
        ledger = Ledger(tmp_path / "run" / "results.jsonl", str)
        ledger.write("run", id="r1", mode=mode, source="hardware", bench="r640-07", stages=STAGES)
        ledger.write("identity", facts=IDENTITY)
        for stage in ended:
            ledger.write("stage", stage=stage, state="started")
            for slot in ("a/slot01", "a/slot02") if stage == "pcie" else ():
                name, value = "pcie.identity", "10de:1e78"
                part = {"slot": slot, "address": "0000:3b:00.0" if slot == "a/slot01" else "0000:3c:00.0"}
                case = f"pcie.identity[{slot}]"
                ledger.write("measurement", case=case, check="pcie.identity", name=name, value=value, outcome="pass", part=part)
                ledger.write("case", case=case, check="pcie.identity", stage="pcie", slot=slot, outcome="passed")
            for slot, serial in (serials or {}).items() if stage == "gpu" else ():
                case, part = f"gpu.ecc[{slot}]", {"slot": slot, "serial": serial}
                ledger.write("measurement", case=case, check="gpu.ecc", name="gpu.ecc", value=0, outcome="pass", part=part)
                ledger.write("case", case=case, check="gpu.ecc", stage="gpu", slot=slot, outcome="passed")
            for case in more:
                if case["stage"] == stage:
                    ledger.write("case", **case)
            if stage == "pcie":
                ledger.write("exhibit", name="pcie", data={"boot": boot})
            gate = "degraded" if stage == "pcie" and lost else "open"
            ledger.write("stage", stage=stage, state="ended", gate=gate, lost=list(lost) if stage == "pcie" else [])
        if end is None:
            ledger.write("stage", stage="p2p", state="started")
        else:
            ledger.write("end", verdict=end, exit=0)
        ledger.close()
        return tmp_path / "run"

    return make


def test_everything_the_same_carries_all_that_ended_but_first_contact(run):
    found = weigh(read_resumable(run()), HERE, ())
    assert found.carried == ("bios", "boot", "pcie", "gpu")
    assert found.left == ("bmc", "p2p", "resnet50")
    assert found.void == {}


@pytest.mark.parametrize(
    ("changed", "carried", "says"),
    [
        ({"identity": IDENTITY | {"bios": "2.22.1"}}, (), "bios was 2.21.2 and is 2.22.1"),
        ({"identity": IDENTITY | {"idrac": "7.10.30.00"}}, (), "idrac was 7.00.00.182 and is 7.10.30.00"),
        ({"identity": {}}, (), "system was PowerEdge R640 and is unknown"),
        ({"boot_id": "another"}, (), "the machine restarted since"),
        ({"boot_id": ""}, (), "it cannot be proven that the machine has not restarted"),
        (
            {"parts": {"a/slot01": HERE.parts["a/slot01"]}},
            ("bios", "boot"),
            "a/slot02 held 0000:3c:00.0 10de:1e78, and now nothing",
        ),
        ({"parts": dict.fromkeys(HERE.parts, "0000:3b:00.0 10de:1e30")}, ("bios", "boot"), "(and 1 more slots)"),
    ],
)
def test_what_is_not_the_same_any_more_voids_what_rests_on_it(run, changed, carried, says):
    found = weigh(read_resumable(run()), replace(HERE, **changed), ())
    assert found.carried == carried
    assert any(says in line for line in found.told), found.told


def test_another_machine_is_refused(run):
    with pytest.raises(OwnershipError, match="made on service tag ABC1234, and this is XYZ9999"):
        weigh(read_resumable(run()), replace(HERE, identity=IDENTITY | {"service_tag": "XYZ9999"}), ())


def test_gates_are_as_the_stages_left_them(run):
    failed = {"case": "pcie.chain-link[a/slot02]", "check": "pcie.chain-link", "stage": "pcie", "slot": "a/slot02"}
    folder = run(more=[failed | {"outcome": "failed", "blame": "product", "message": "lost"}], lost=("a/slot02",))
    gates = Gates()
    found = weigh(read_resumable(folder), HERE, ())
    restore_gates(found, gates)
    assert gates.state("pcie") is Gate.DEGRADED
    assert gates.block("gpu", "a/slot02") == "BLOCKED by pcie.chain-link[a/slot02]"
    assert gates.block("gpu", "a/slot01") is None
    (case,) = [case for case in carried_cases(found) if case.failed]
    assert (case.id, case.blame, case.slot) == ("pcie.chain-link[a/slot02]", "product", "a/slot02")


WAIVED = {
    **{"case": "pcie.chain-link[a/slot02]", "check": "pcie.chain-link", "stage": "pcie", "slot": "a/slot02", "outcome": "waived"},
    **{"blame": "product", "message": "lost"},
    "waiver": {
        **{"check": "pcie.chain-link", "ticket": "LAB-7", "owner": "o", "expires": "2027-01-31", "reason": "r"},
        "outcome": "failed",
    },
}


@pytest.mark.parametrize(
    ("today", "carried"),
    [(date(2027, 1, 31), ("bios", "boot", "pcie", "gpu")), (date(2027, 2, 1), ("bios", "boot"))],
)
def test_a_waiver_that_expired_meanwhile_voids_its_stage(run, today, carried):
    found = weigh(read_resumable(run(more=[WAIVED])), HERE, (), today=today)
    assert found.carried == carried
    says = "the waiver LAB-7 of pcie.chain-link[a/slot02] expired after 2027-01-31"
    assert any(says in line for line in found.told) == (today > date(2027, 1, 31))


def test_what_was_waived_stays_so_and_counts_as_a_use(run):
    found = weigh(read_resumable(run(more=[WAIVED], lost=("a/slot02",))), HERE, ())
    gates = Gates()
    restore_gates(found, gates)
    assert gates.block("gpu", "a/slot02") == "BLOCKED by pcie.chain-link[a/slot02]"
    entry = "[[waiver]]\ncheck = '{}'\nplatform = 'p'\nreason = 'r'\nticket = 'LAB-7'\nowner = 'o'\nexpires = 2027-01-31\n"
    waivers = load_waivers(entry.format("pcie.chain-link") + entry.format("gpu.ecc"), "w.toml")
    waiving = Waiving(waivers, "p", date(2027, 1, 1))
    waiving.take_over(carried_cases(found))
    (told,) = waiving.unused({})
    assert told.startswith("waiver of gpu.ecc was not used")


def test_a_stage_with_a_planned_case_that_never_came_does_not_hold(run):
    folder = run()
    file = folder / "results.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines.insert(2, {"kind": "plan", "cases": [{"case": "pcie.width[a/slot01]", "check": "pcie.width", "stage": "pcie"}]})
    file.write_text("".join(json.dumps(line | {"seq": number}) + "\n" for number, line in enumerate(lines, start=1)))
    assert weigh(read_resumable(folder), HERE, ()).carried == ("bios", "boot")


def test_a_closing_check_of_first_contact_that_was_cut_off_voids_nothing(run):
    folder = run()
    with (folder / "results.jsonl").open("ab") as file:
        seq = len((folder / "results.jsonl").read_bytes().splitlines()) + 1
        file.write(json.dumps({"seq": seq, "kind": "stage", "stage": "bmc", "state": "started"}).encode() + b"\n")
    assert weigh(read_resumable(folder), HERE, ()).carried == ("bios", "boot", "pcie", "gpu")


def test_nothing_is_taken_from_a_damaged_record(run):
    file = run() / "results.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lost = next(number for number, line in enumerate(lines) if b'"kind":"case"' in line)
    file.write_bytes(b"".join(lines[:lost] + lines[lost + 1 :]))
    found = weigh(read_resumable(file.parent), HERE, ())
    assert found.carried == ()
    assert any("its record is damaged: line number" in line for line in found.told)


def test_a_gpu_with_another_serial_voids_what_was_seen_of_the_one_before(run):
    record = read_resumable(run(serials={"a/slot01": "S1", "a/slot02": "S2"}))
    same = replace(HERE, serials={"a/slot01": "S1", "a/slot02": "S2"})
    assert weigh(record, same, ()).carried == ("bios", "boot", "pcie", "gpu")
    found = weigh(record, replace(HERE, serials={"a/slot01": "S1", "a/slot02": "S9"}), ())
    assert found.carried == ("bios", "boot")
    assert any("a/slot02 held the part with serial S2, and now serial S9" in line for line in found.told)
    assert weigh(record, HERE, ()).carried == ("bios", "boot"), "a driver that says nothing proves nothing"


def test_the_look_names_boot_and_part_of_every_slot_and_writes_nothing():
    bench, bench_file = locator.find_bench("model-lqd8360")
    platform, _ = locator.find_platform(bench.platform, bench_file)
    slots = bench.slots(platform, str(bench_file))
    reach = reach_model((), slots, bench.name, delivered=False)
    with ExitStack() as held:
        lanes = reach.open_lanes(held)
        host = Host(lanes.host, reach.clock)
        seen = look(lanes, host, bench, slots, reach.clock, serials=True)
        again = look(lanes, host, bench, slots, reach.clock, serials=False)
    assert seen.identity["service_tag"] == bench.service_tag or not bench.service_tag
    assert seen.boot_id
    assert set(seen.parts) == set(seen.serials) == {slot.name for slot in slots}
    assert len(set(seen.serials.values())) == len(slots)
    assert (again.identity, again.boot_id, again.parts, again.serials) == (seen.identity, seen.boot_id, seen.parts, {})


def test_only_stages_that_hold_say_who_sits_in_a_slot(run):
    record = read_resumable(run(serials={"a/slot01": "S1"}))
    held = weigh(record, replace(HERE, serials={"a/slot01": "S1"}), ())
    assert {part.serial for part in carried_parts(held)} == {"", "S1"}
    assert list(carried_parts(weigh(record, HERE, ()))) == []


def test_a_line_with_any_character_in_it_is_carried_over(run):
    message = "odd \u2028 \x85 \x0c text"
    case = {"case": "pcie.odd", "check": "pcie.odd", "stage": "pcie", "outcome": "failed", "blame": "product", "message": message}
    found = weigh(read_resumable(run(more=[case])), HERE, ())
    assert [fields["message"] for kind, fields in carried_lines(found) if kind == "case" and fields["case"] == "pcie.odd"] == [
        message
    ]


def test_evidence_is_copied_from_below_the_run_only(run, tmp_path):
    (tmp_path / "secret").write_text("not evidence")
    (tmp_path / "new").mkdir()
    case = {"case": "pcie.odd", "check": "pcie.odd", "stage": "pcie", "outcome": "failed", "blame": "product"}
    folder = run(more=[case | {"attachments": ["evidence/a.txt", "../secret", str(tmp_path / "secret"), "evidence/gone.txt"]}])
    (folder / "evidence").mkdir()
    (folder / "evidence" / "a.txt").write_text("seen")
    copy_evidence(weigh(read_resumable(folder), HERE, ()), tmp_path / "new" / "run")
    assert [path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()] == [
        "run/evidence/a.txt"
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"mode": "replay"}, "this run is a replay and touched no machine"),
        ({"ended": STAGES, "end": "PASSED"}, "every stage of this run came to its end; there is nothing to resume"),
    ],
)
def test_a_run_that_needs_no_resuming_says_so(run, changed, says):
    with pytest.raises(UsageMistake, match=says):
        read_resumable(run(**changed))


def test_a_record_cut_at_any_byte_is_readable_and_resumable_or_says_why_not(run):
    file = run() / "results.jsonl"
    whole = file.read_bytes()
    for cut in range(0, len(whole), 7):
        file.write_bytes(whole[:cut])
        if b"\n" not in whole[:cut]:
            with pytest.raises(UsageMistake, match="record"):
                read_resumable(file.parent)
            continue
        record = read_resumable(file.parent)
        carried = weigh(record, HERE, ()).carried
        assert carried == ("bios", "boot", "pcie", "gpu")[: len(carried)]


def test_what_the_killed_run_left_is_told_first(run):
    folder = run()
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps({"seq": 99, "kind": "handover", "text": "JID_1 Scheduled: applies at the next reboot"}) + os.linesep)
    assert any("r1 left on the machine: JID_1 Scheduled" in line for line in weigh(read_resumable(folder), HERE, ()).told)


def test_nothing_left_is_not_told_as_something(run):
    folder = run()
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "handover", "text": NOTHING}) + os.linesep)
    found = weigh(read_resumable(folder), HERE, ())
    assert found.leftover == ""
    assert not any(NOTHING in line for line in found.told)
