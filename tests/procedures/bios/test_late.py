"""A colleague who stages a value between our look and our PATCH is noticed, and nothing is written."""

from harness.clock import VirtualClock
from harness.consent import Consent
from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.lab.idrac import names
from harness.lab.model.lanes import open_model
from harness.lab.model.parts import SERVICE_TAG
from harness.locator import find_platform
from harness.ports import Effect, HttpQuestion
from harness.procedures.bios import bring_bios
from harness.procedures.handover import Handover


class Colleague:
    """Stages a value of his own while we read the attribute registry."""

    def __init__(self, port):
        self.port, self.ours, self.done = port, [], False

    def ask(self, question, on_line=None):
        if question.effect is Effect.ACT:
            self.ours.append(question.key)
        answer = self.port.ask(question, on_line)
        if question.path.endswith("BiosRegistry") and not self.done:
            self.done = True
            self.port.ask(HttpQuestion.act("PATCH", names.SETTINGS, {"Attributes": {"ProcX2Apic": "Enabled"}}))
        return answer

    def close(self):
        self.port.close()


def test_a_value_that_is_staged_after_our_look_stops_the_run():
    clock = VirtualClock()
    colleague = Colleague(open_model(clock).bmc)
    platform, _ = find_platform("lqd8360")
    idrac = Idrac(Redfish(colleague, clock))
    story = bring_bios(idrac, platform, Consent(apply=True), Handover(), expected_tag=SERVICE_TAG)
    assert colleague.done
    assert story.stopped_by == "bios.preflight-pending"
    assert "ProcX2Apic" in story.stopped
    assert colleague.ours == []
