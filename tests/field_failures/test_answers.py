"""Answers that do not mean what they say: failures 8 to 12, 15, 18, 24, 25 and 29."""

from __future__ import annotations

import pytest

from harness.clock import WallClock
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.errors import AuthRefused, BenchError, RedfishError
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.live.http import RedfishHttp
from harness.procedures.bios.story import BEFORE_RESET
from harness.procedures.contact import make_contact
from harness.procedures.handover import NOTHING
from harness.secret import SecretReference

WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}


@pytest.mark.parametrize("fault", ["empty-503", "swc0700-as-400"], ids=["08", "09"])
def test_08_09_not_ready_is_waited_out_and_no_queue_is_cleared(failing, fault):
    machine = failing(fault)
    story = machine.bring_bios()
    assert story.stopped == ""
    assert {name: machine.current[name] for name in WANTED} == WANTED
    assert (machine.patches, len(machine.resets)) == (1, 1)
    assert machine.idrac.redfish.refusals > 0
    assert machine.lane.sent("POST", "DeleteJobQueue") == []
    refused = [answer for _, answer in machine.lane.asked if answer is not None and answer.status in (400, 503)]
    assert len(refused) < 30


def test_08_one_of_the_refusals_has_no_body_at_all(failing):
    machine = failing("empty-503")
    machine.bring_bios()
    assert (503, None) in [(answer.status, answer.body) for _, answer in machine.lane.asked if answer is not None]


def test_10_a_wrong_password_ends_the_wait_at_once(failing):
    machine = failing("systems-empty", "bmc.auth")
    contact = make_contact(machine.idrac, "MODEL01")
    assert isinstance(contact.error, AuthRefused)
    assert machine.clock.now() < 5
    assert [entry.message_id for entry in machine.machine.controller.log.entries].count("USR0031") == 1


def test_10_a_collection_of_systems_that_is_empty_for_a_while_is_waited_out(failing):
    machine = failing("systems-empty")
    contact = make_contact(machine.idrac, "MODEL01")
    assert contact.error is None
    assert contact.system.service_tag == "MODEL01"
    assert 100 < machine.clock.now() < 300


def test_11_leaked_sessions_are_named_after_one_attempt(failing):
    machine = failing("sessions-leaked")
    with pytest.raises(BenchError, match="RAC0218"):
        machine.bring_bios()
    assert machine.patches == 0
    assert [entry.arguments[0] for entry in machine.machine.controller.log.entries if entry.message_id == "USR0030"] == [
        "operator"
    ] * 8


@pytest.mark.socket
def test_11_who_holds_the_sessions_is_named(failing, monkeypatch):
    pytest.importorskip("cheroot", reason="pip install 'bringup-harness[test]'")
    pytest.importorskip("cryptography", reason="pip install 'bringup-harness[test]'")
    from harness.lab.idrac.serve import serve

    monkeypatch.setenv("MODEL_PASSWORD", parts.BMC_PASSWORD)
    machine = failing("sessions-leaked")
    log = machine.machine.controller.log
    with serve(IdracApplication(machine.machine)) as served:
        password = SecretReference(env="MODEL_PASSWORD")
        lane = RedfishHttp(served.url, parts.BMC_USER, password, WallClock(), pin=served.pin)
        contact = make_contact(Idrac(Redfish(lane, machine.clock)), parts.SERVICE_TAG)
        lane.close()
    assert "held by operator from 192.0.2.7 (ids 1, 2, 3, 4, 5, 6, 7, 8)" in str(contact.error)
    assert isinstance(contact.error, BenchError)
    assert [entry.message_id for entry in log.entries].count("USR0031") == 0, "no login was refused for its password"
    assert len(machine.machine.controller.sessions.open) == 8, "nobody's session was ended"


def test_11_the_harness_leaves_no_session_of_its_own(failing):
    machine = failing("pr30-for-ever")
    machine.bring_bios()
    machine.lane.close()
    assert machine.machine.controller.sessions.open == ()


def test_12_a_session_that_ends_is_opened_once_more(failing):
    machine = failing("session-expires")
    story = machine.bring_bios()
    assert story.stopped == ""
    assert {name: machine.current[name] for name in WANTED} == WANTED
    assert [entry.message_id for entry in machine.machine.controller.log.entries].count("USR0030") == 2


def test_15_a_commit_by_somebody_else_is_told_and_not_fought(failing):
    machine = failing("secureboot-joined")
    story = machine.bring_bios()
    assert story.stopped_by == BEFORE_RESET
    assert "SYS011" in story.stopped
    assert (machine.patches, machine.resets, machine.open_jobs) == (1, [], [])
    assert machine.lane.sent("PATCH", "/SecureBoot") == []
    assert machine.handover.line() == NOTHING


def test_18_one_refused_value_refuses_all_and_nothing_stays(failing):
    machine = failing("one-bad-value")
    story = machine.bring_bios()
    assert story.stopped_by == BEFORE_RESET
    assert "SYS409" in story.stopped
    assert "OsWatchdogTimer" in story.stopped.partition("\n")[0], "the attribute that was refused is named"
    assert (machine.resets, machine.pending) == ([], {})
    assert machine.handover.line() == NOTHING


def test_24_a_412_is_tried_once_more_after_a_fresh_look_and_no_request_carries_if_match(failing):
    machine = failing("transient-412")
    assert machine.bring_bios().stopped == ""
    assert machine.patches == 2
    assert {name: machine.current[name] for name in WANTED} == WANTED


def test_25_an_error_in_a_200_is_an_error(failing):
    machine = failing("error-in-200")
    story = machine.bring_bios()
    assert story.stopped_by == BEFORE_RESET
    assert "SYS409" in story.stopped
    assert (machine.resets, machine.pending) == ([], {})


def test_25_values_that_were_taken_in_spite_of_a_400_are_found_by_looking(failing):
    machine = failing("applied-though-400")
    story = machine.bring_bios()
    assert story.stopped == ""
    assert (machine.patches, len(machine.resets)) == (1, 1)
    assert {name: machine.current[name] for name in WANTED} == WANTED


def test_29_an_error_message_that_is_an_object_is_read(failing):
    machine = failing("error-is-object", "idrac.secureboot-joined")
    with pytest.raises(RedfishError) as caught:
        machine.idrac.redfish.get(f"{names.SYSTEM}/Nowhere")
    assert (caught.value.status, list(caught.value.message_ids)) == (404, ["IDRAC.2.8.SYS403"])
    assert "SYS011" in machine.bring_bios().stopped
