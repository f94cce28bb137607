"""A machine that cannot POST runs no job that would restore it: a way back is shown first, and taken in order."""

from __future__ import annotations

import pytest

from harness.lab.model.fabric import ModelFabric

MODEL = "model-lqd8360"
LOOP = ("--fault", "boot.loop")


@pytest.fixture
def edits(monkeypatch):
    """Every change of the fabric, with the host's power at that moment."""
    noted = []
    ask = ModelFabric.ask

    def noting(lane, question, on_line=None):
        if question.method != "GET":
            noted.append((f"{question.method} {question.path.rpartition('v2/')[2]}", lane._machine.status().power))
        return ask(lane, question, on_line)

    monkeypatch.setattr(ModelFabric, "ask", noting)
    return noted


def test_on_a_machine_that_loops_with_uefi0256_an_apply_writes_and_resets_nothing(bringup, wire):
    def looping(_, machine):
        if machine.status().server == "OutOfPOST":
            machine.reset("ForceRestart")
            machine._timeline._clock.sleep(1500)

    wire.before = looping
    done = bringup("bios", "apply", "--bench", MODEL, *LOOP)
    assert done.status == 3, done.text
    assert "the host stays in InPOST" in done.text
    assert wire.writes == []


def test_without_a_yes_the_ladder_is_shown_and_nothing_is_touched(bringup, wire, edits):
    done = bringup("rescue", "--bench", MODEL, *LOOP)
    assert done.status == 1, done.text
    assert "UEFI0256" in done.out
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("  ")] == ["evidence:", "off:", "detach:", "bare:"]
    assert (wire.writes, edits) == ([], [])


def test_the_ladder_saves_evidence_switches_off_detaches_and_starts_bare_in_this_order(bringup, wire, edits, tmp_path):
    evidence = []

    def kept(sent, machine):
        if sent.is_reset and not evidence:
            evidence.extend(file.name for file in tmp_path.glob("reports/rescue-*/*"))

    wire.before = kept
    done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes")
    assert done.status == 0, done.text
    assert {"lc-log.txt", "screen.png", "console.txt", "jobs.txt"} <= set(evidence), "before the first reset"
    assert [sent.body for sent in wire.writes if sent.is_reset] == ['{"ResetType": "ForceOff"}', '{"ResetType": "On"}']
    assert {power for _, power in edits} == {"Off"}, "GPUs go only while the host is off"
    assert len([edit for edit, _ in edits if edit.startswith("DELETE")]) == 20
    assert wire.machine.os_is_up
    assert "1, 2, 4, 8" in done.handovers[-1]


def test_old_settings_come_back_only_after_a_bare_start(bringup, wire, tmp_path):
    (tmp_path / "before.toml").write_text('NumLock = "Off"\n')
    done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes", "--restore", "before.toml")
    assert done.status == 0, done.text
    order = [sent.method if sent.method == "PATCH" else sent.body.split('"')[3] for sent in wire.writes]
    assert order == ["ForceOff", "On", "PATCH", "ForceRestart"]
    assert wire.machine.controller.bios.current["NumLock"] == "Off"
    assert wire.machine.view().gpus == ()


@pytest.mark.socket
def test_where_no_fabric_can_be_asked_it_is_said_that_hands_are_needed(served, wire):
    service = served("boot.loop")
    service.machine.reset("ForceRestart")
    service.clock.sleep(1500)
    done = service.bringup("rescue", "--bench", "BENCH", "--yes")
    assert done.status == 3, done.text
    assert "hands are needed" in done.out
    assert "--chassis-off" in done.out
    assert [sent.body for sent in wire.writes] == ['{"ResetType": "ForceOff"}']
    assert "the host is off" in done.handovers[-1]


# ── Ctrl-C on each rung ───────────────────────────────────────────────────────────────────────────────────────────

OFF, ON = '"ForceOff"', '"On"'
DETACHED = "the host is off and its GPUs are detached: "
PUT_BACK = "BIOS values NumLock On -> Off"
RUNGS = {
    "evidence": ("before", lambda sent: "ExportServerScreenShot" in sent.path, [], ["nothing was left on the machine"]),
    "off, not sent yet": ("before", lambda sent: OFF in sent.body, [OFF], ["asked to switch off (ForceOff); undo:"]),
    "off": ("after", lambda sent: OFF in sent.body, [OFF], ["asked to switch off (ForceOff); undo: ComputerSystem.Reset On"]),
    "bare, not sent yet": ("before", lambda sent: ON in sent.body, [OFF, ON], [DETACHED]),
    "bare": ("after", lambda sent: ON in sent.body, [OFF, ON], ["give them back in the fabric"]),
    "restore, staged": ("after", lambda sent: sent.method == "PATCH", [OFF, ON, "NumLock"], [PUT_BACK, "without its GPUs"]),
    "restore, restarting": (
        "after",
        lambda sent: "Restart" in sent.body,
        [OFF, ON, "NumLock", "ForceRestart"],
        [PUT_BACK, "without its GPUs"],
    ),
}


@pytest.mark.parametrize(("when", "matches", "written", "left"), RUNGS.values(), ids=RUNGS)
def test_ctrl_c_on_a_rung_ends_the_climb_and_says_what_is_left(bringup, wire, tmp_path, when, matches, written, left):
    (tmp_path / "before.toml").write_text('NumLock = "Off"\n')
    pressed = []

    def press(sent, _):
        if not pressed and matches(sent):
            pressed.append(sent)
            raise KeyboardInterrupt

    setattr(wire, when, press)
    done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes", "--restore", "before.toml")
    assert (done.status, len(pressed)) == (130, 1), done.text
    (said,) = done.handovers
    assert [part for part in left if part not in said] == []
    assert [word for word, sent in zip(written, wire.writes, strict=True) if word not in sent.body] == []
    assert wire.machine.controller.sessions.open == ()


@pytest.mark.parametrize("gone", [0, 1, 10, 20])
def test_ctrl_c_among_the_gpus_names_all_that_may_be_gone_and_starts_nothing(bringup, wire, monkeypatch, gone):
    ask = ModelFabric.ask
    deleted = []

    def pressing(lane, question, on_line=None):
        if question.method == "DELETE" and len(deleted) == gone:
            raise KeyboardInterrupt
        answer = ask(lane, question, on_line)
        if question.method == "DELETE":
            deleted.append(question.path)
            if gone == len(deleted) == 20:
                raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(ModelFabric, "ask", pressing)
    done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes")
    assert (done.status, len(deleted)) == (130, gone), done.text
    (said,) = done.handovers
    assert said.startswith(DETACHED)
    assert said.count("jbog") == 20
    assert "give them back in the fabric, then power on" in said
    assert [sent.body for sent in wire.writes] == ['{"ResetType": "ForceOff"}']
    assert wire.machine.status().power == "Off"


def test_a_restore_of_what_cannot_be_meant_is_refused_before_anything_is_touched(bringup, wire, tmp_path):
    (tmp_path / "broken.toml").write_text("NumLock = [\n")
    for file in ("broken.toml", "missing.toml"):
        done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes", "--restore", file)
        assert done.status == 2, done.text
        assert file in done.err
    assert wire.sent == []


def test_a_restore_of_what_this_bios_lacks_leaves_a_bare_machine_and_says_so(bringup, wire, tmp_path):
    (tmp_path / "other.toml").write_text('NumLok = "Off"\n')
    done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes", "--restore", "other.toml")
    assert done.status != 0, done.text
    assert "did you mean 'NumLock'?" in done.text
    assert "without its GPUs" in done.handovers[-1]
    assert [sent.method for sent in wire.writes if sent.method == "PATCH"] == []


def test_a_restore_of_a_danger_needs_its_name(bringup, wire, tmp_path):
    (tmp_path / "boot.toml").write_text('BootMode = "Bios"\n')
    done = bringup("rescue", "--bench", MODEL, *LOOP, "--yes", "--restore", "boot.toml")
    assert done.status != 0, done.text
    assert "boot-mode" in done.text
    assert [sent.method for sent in wire.writes if sent.method == "PATCH"] == []
    assert wire.machine.controller.bios.current["BootMode"] == "Uefi"
