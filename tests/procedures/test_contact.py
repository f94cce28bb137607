from __future__ import annotations

import pytest

from harness.errors import AuthRefused, DeviceError, Unreachable, Untrusted
from harness.procedures.contact import AUTH, IDENTITY, TLS, make_contact


def test_a_contact_tells_who_answers_and_marks_the_log(lab):
    machine = lab()
    contact = make_contact(machine.idrac, machine.tag)
    assert (contact.error, contact.check) == (None, "")
    assert contact.identity() == {
        "simulated": "model",
        "service_tag": "MODEL01",
        "system": "PowerEdge R640",
        "bios": contact.system.bios_version,
        "idrac": contact.manager.firmware_version,
    }
    assert contact.lc_baseline.number == machine.machine.controller.log.entries[-1].number
    assert machine.lane.acts == []


@pytest.mark.parametrize(("fault", "error", "check"), [("bmc.tls", Untrusted, TLS), ("bmc.auth", AuthRefused, AUTH)])
def test_a_refused_contact_keeps_its_error_for_the_check(lab, fault, error, check):
    machine = lab(fault)
    contact = make_contact(machine.idrac, machine.tag)
    assert isinstance(contact.error, error)
    assert contact.check == check
    assert contact.identity() == ({} if check == "bmc.tls" else {"simulated": "model"})
    assert contact.lc_baseline is None


def test_a_wrong_password_is_one_attempt(lab):
    machine = lab("bmc.auth")
    make_contact(machine.idrac, machine.tag)
    failed = [entry for entry in machine.machine.controller.log.entries if entry.message_id == "USR0031"]
    assert len(failed) == 1


def test_another_machine_is_recognised_and_not_raised(lab):
    machine = lab("bmc.identity")
    contact = make_contact(machine.idrac, machine.tag)
    assert contact.error is None
    assert contact.system.service_tag == "MODEL99" != contact.expected_tag


@pytest.mark.parametrize(
    ("lost_at", "error", "check"),
    [
        ("/redfish/v1", Unreachable("no route"), TLS),
        ("/redfish/v1/Systems", Unreachable("gone"), AUTH),
        ("/redfish/v1/Systems", DeviceError("nonsense"), IDENTITY),
    ],
)
def test_where_it_breaks_off_decides_which_check_fails(lab, lost_at, error, check):
    machine = lab()

    def lose(question):
        if question.path == lost_at:
            raise error

    machine.lane.before = lose
    contact = make_contact(machine.idrac, machine.tag)
    assert contact.error is error
    assert contact.check == check
