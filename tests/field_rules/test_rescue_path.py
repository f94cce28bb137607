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
