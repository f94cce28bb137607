"""Three wrong passwords block a client for a minute, so one is one attempt; no default password is ever tried."""

from __future__ import annotations

import json

import pytest

from harness.lab.model import parts

pytestmark = pytest.mark.socket

COMMANDS = {
    "run": ("run", "--bench", "BENCH", "--live", "--apply", "--stage", "bmc", "--stage", "bios", "--stage", "boot"),
    "show": ("bios", "show", "--bench", "BENCH"),
    "plan": ("bios", "plan", "--bench", "BENCH"),
    "apply": ("bios", "apply", "--bench", "BENCH"),
    "apply, waiting": ("bios", "apply", "--bench", "BENCH", "--on-conflict", "wait"),
    "clear": ("bios", "clear", "--bench", "BENCH"),
    "export": ("bios", "export", "--bench", "BENCH", "out.json"),
    "rescue": ("rescue", "--bench", "BENCH", "--yes"),
    "rescue, looking": ("rescue", "--bench", "BENCH"),
}
SLOW = ("show", "plan", "apply, waiting", "export", "rescue, looking")
WRONG = "not-the-password"


def passwords_tried(wire):
    """Wherever a password may travel: a log-in's body; the root answers without one."""
    return [json.loads(sent.body)["Password"] for sent in wire.logins]


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, words in COMMANDS.items()]
)
def test_a_wrong_password_is_one_attempt(served, wire, words):
    service = served()
    done = service.bringup(*words, password=WRONG)
    assert done.status == 3, done.text
    assert passwords_tried(wire) == [WRONG]
    assert wire.writes == []
    log = [entry.message_id for entry in service.machine.controller.log.entries]
    assert log.count("USR0031") == 1, "log-ins that the iDRAC itself counted as failed, Basic ones included"
    assert "USR0034" not in log
    assert WRONG not in done.out + done.err


@pytest.mark.parametrize("words", [COMMANDS["apply"], COMMANDS["rescue"]], ids=["apply", "rescue"])
def test_the_right_password_is_one_session_that_ends(served, wire, words):
    """The count above would be one, too, where nothing but the first request was ever sent."""
    service = served()
    done = service.bringup(*words, *(["--no-reboot"] if "apply" in words else []))
    assert done.status == 0, done.text
    assert passwords_tried(wire) == [parts.BMC_PASSWORD]
    assert len(wire.sent) > 5
    assert service.sessions == 0


def test_a_password_that_is_changed_in_the_middle_of_an_apply_is_one_attempt_too(served, wire):
    """The iDRAC forgets its sessions, and whoever changed the password did not tell."""
    service = served(fast=True)
    sessions = service.machine.controller.sessions

    def lock_out(_):
        sessions.drop_all()
        sessions._password = "another one"

    assert wire.once(lambda sent, _: sent.method == "PATCH", lock_out) == []
    done = service.bringup("bios", "apply", "--bench", "BENCH")
    assert done.status == 3, done.text
    assert passwords_tried(wire) == [parts.BMC_PASSWORD] * 2
    assert [sent.method for sent in wire.writes] == ["PATCH"]
    assert "MmioAbove4Gb" in done.handovers[-1]
    assert "undo" in done.handovers[-1]
