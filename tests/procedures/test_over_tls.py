"""The same procedures through the live lane: real requests over TLS to the served model, on its own clock."""

from __future__ import annotations

import pytest

from harness.clock import VirtualClock
from harness.consent import Consent
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.host import ModelHost
from harness.lab.model.machine import Machine
from harness.live.http import RedfishHttp
from harness.procedures.bios import bring_bios
from harness.procedures.boot import bring_up
from harness.procedures.contact import make_contact
from harness.procedures.handover import NOTHING
from harness.secret import SecretReference

pytest.importorskip("cheroot")
pytest.importorskip("cryptography")
pytestmark = pytest.mark.socket


@pytest.mark.parametrize("faults", [(), ("bmc.continuity",)])
def test_contact_bios_and_boot_come_up_over_tls_and_leave_no_session(lab, monkeypatch, faults):
    from harness.lab.idrac.serve import serve

    monkeypatch.setenv("MODEL_PASSWORD", parts.BMC_PASSWORD)
    local = lab()
    clock = VirtualClock()
    machine = Machine(clock, frozenset(faults))
    with serve(IdracApplication(machine)) as served:
        lane = RedfishHttp(served.url, parts.BMC_USER, SecretReference(env="MODEL_PASSWORD"), clock, pin=served.pin)
        idrac = Idrac(Redfish(lane, clock))
        contact = make_contact(idrac, parts.SERVICE_TAG)
        bios = bring_bios(idrac, local.platform, Consent(apply=True), local.handover, expected_tag=parts.SERVICE_TAG)
        host = Host(ModelHost(clock, machine), clock)
        boot = bring_up(idrac, host, None, local.platform, Consent(apply=True), local.handover, expected_tag=parts.SERVICE_TAG)
        lane.close()
        sessions = machine.controller.sessions.open
    assert (contact.error, bios.stopped, boot.stopped) == (None, "", "")
    assert (bios.patches, len(bios.losses)) == (1, len(faults))
    assert boot.boot_id != boot.previous_boot_id
    assert sessions == ()
    assert local.handover.line() == NOTHING
