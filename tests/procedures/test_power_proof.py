"""Each row of the power table carried out on the modelled machine with its proof, and refused where it must be."""

from __future__ import annotations

import pytest

from harness.devices.idrac_power import cycle_ac, restart_idrac
from harness.devices.jobs import Job
from harness.errors import BenchError, DeviceError, Unreachable
from harness.procedures.power import TABLE, WAYS, Bar, Proof, Standing, Target, Way, forbidden
from harness.procedures.power_proof import carry_out, stand

DELL_LISTS = {"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"}
"""What public iDRAC9 captures list between them."""


def test_every_way_has_one_row_and_every_row_is_complete():
    assert set(TABLE) == set(Way)
    for row in TABLE.values():
        assert row.kinds
        assert row.proof.log
        assert 0 < row.usual < row.limit
        assert Bar.JOB in row.bars
        assert row.target is not Target.SYSTEM or DELL_LISTS.issuperset(row.kinds)
    assert set(WAYS.values()) <= set(TABLE)


@pytest.fixture
def ready(lab):
    """The modelled machine in the state from which a way begins."""

    def build(way, *faults):
        machine = lab(*faults)
        if TABLE[way].state == "Off":
            carry_out(machine.idrac, Way.FORCED_OFF, expected_tag=machine.tag)
        machine.lane.asked.clear()
        return machine

    return build


@pytest.mark.parametrize("way", Way)
def test_a_way_is_gone_once_and_proven(ready, way):
    machine, row = ready(way), TABLE[way]
    before = machine.idrac.system().power_state
    done = carry_out(machine.idrac, way, expected_tag=machine.tag)
    assert len(machine.lane.acts) == 1
    assert row.target in machine.lane.acts[0].path
    assert row.proof.is_given([event.message_id for event in done.events], done.power)
    assert done.power == (row.proof.power or before)
    assert done.seconds <= row.limit
    assert bool(done.losses) == (row.target is not Target.SYSTEM), "only what goes away with the iDRAC loses answers"


@pytest.mark.parametrize("way", Way)
def test_another_machine_is_left_alone(ready, way):
    machine = ready(way)
    with pytest.raises(BenchError, match="pins OTHER"):
        carry_out(machine.idrac, way, expected_tag="OTHER")
    assert machine.lane.acts == []


@pytest.mark.parametrize("way", [way for way in Way if TABLE[way].state])
def test_the_wrong_state_before_forbids_it_and_nothing_is_sent(lab, way):
    machine = lab()
    if TABLE[way].state == "On":
        carry_out(machine.idrac, Way.FORCED_OFF, expected_tag=machine.tag)
    machine.lane.asked.clear()
    with pytest.raises(BenchError, match=f"{way}: the host is (On|Off); it has to be {TABLE[way].state}.*; nothing was sent"):
        carry_out(machine.idrac, way, expected_tag=machine.tag)
    assert machine.lane.acts == []


@pytest.mark.parametrize("way", Way)
def test_a_job_of_somebody_else_forbids_every_way_and_our_own_none(ready, way):
    machine = ready(way)
    standing = stand(machine.idrac)
    waiting = Job("JID_1", "Scheduled", "RAIDConfiguration", "JCP001")
    busy = Standing(standing.system, (waiting,))
    assert "not ours" in forbidden(way, busy)
    assert forbidden(way, busy, own="JID_1") == ""
    assert "at work" in forbidden(way, Standing(standing.system, (Job("JID_1", "Running", "x", "PR20"),)), own="JID_1")


@pytest.mark.parametrize("way", Way)
def test_people_forbid_what_stops_the_host(ready, way):
    standing = Standing(ready(way).idrac.system(), occupants="ann logged in")
    stops_the_host = way in (Way.GRACEFUL_OFF, Way.FORCED_OFF, Way.WARM, Way.COLD)
    assert ("ann logged in" in forbidden(way, standing)) is stops_the_host


def test_staged_bios_values_forbid_the_virtual_ac_cycle(ready):
    machine = ready(Way.AC_CYCLE)
    machine.idrac.stage_bios({"OsWatchdogTimer": "Disabled"}, apply_time="")
    machine.lane.asked.clear()
    with pytest.raises(BenchError, match=r"virtual AC cycle: BIOS values are staged \(OsWatchdogTimer\).*; nothing was sent"):
        carry_out(machine.idrac, Way.AC_CYCLE, expected_tag=machine.tag)
    assert machine.lane.acts == []


def test_a_virtual_ac_cycle_leaves_the_host_off_and_the_fabric_as_it_was(ready):
    machine = ready(Way.AC_CYCLE)
    parts = machine.machine.view()
    done = carry_out(machine.idrac, Way.AC_CYCLE, expected_tag=machine.tag)
    assert done.power == "Off"
    assert done.losses[0].seconds > 100
    assert machine.machine.view().populated == parts.populated


def test_a_virtual_ac_cycle_that_ends_on_boots_the_host(ready):
    machine = ready(Way.AC_CYCLE)
    cycle_ac(machine.idrac, "On")
    machine.clock.sleep(2000)
    assert machine.idrac.system().power_state == "On"
    assert machine.machine.os_is_up


def test_the_modelled_idrac_refuses_the_cycle_while_the_host_is_on(lab):
    machine = lab()
    with pytest.raises(DeviceError):
        cycle_ac(machine.idrac)
    assert machine.machine.controller.is_up


def test_an_accepted_request_that_does_nothing_is_a_failure_of_the_product(lab):
    machine = lab("boot.new-boot")
    with pytest.raises(
        DeviceError, match=r"warm restart: ForceRestart was sent, and within 5 min.*its log tells of nothing"
    ) as caught:
        carry_out(machine.idrac, Way.WARM, expected_tag=machine.tag)
    assert caught.value.blame == "product"
    assert machine.lane.resets == ["ForceRestart"]


def test_a_graceful_off_that_no_operating_system_hears_ends_at_its_limit(lab):
    machine = lab()
    machine.idrac.reset("ForceRestart")
    machine.clock.sleep(30)
    began = machine.clock.now()
    with pytest.raises(DeviceError, match=r"graceful off: GracefulShutdown was sent"):
        carry_out(machine.idrac, Way.GRACEFUL_OFF, expected_tag=machine.tag)
    assert machine.clock.now() - began <= TABLE[Way.GRACEFUL_OFF].limit + 60


@pytest.mark.parametrize("way", [Way.AC_CYCLE, Way.IDRAC_RESET])
def test_a_lost_answer_is_no_failure_where_the_idrac_goes_away(ready, way):
    machine = ready(way)

    def lose(question, answer):
        if "Reset" in question.path:
            raise Unreachable("cut off")
        return answer

    machine.lane.after = lose
    done = carry_out(machine.idrac, way, expected_tag=machine.tag)
    assert not done.sent.is_answered
    assert len(machine.lane.acts) == 1


def test_firmware_without_a_way_says_so_before_anything_is_sent(lab):
    machine = lab()

    def hide(question, answer):
        body = answer.body
        if isinstance(body, dict) and "Actions" in body:
            body["Actions"].pop("Oem", None)
            body["Actions"].pop("#Manager.Reset", None)
        return answer

    machine.lane.after = hide
    with pytest.raises(DeviceError, match="offers no virtual AC cycle that ends Off"):
        cycle_ac(machine.idrac)
    with pytest.raises(DeviceError, match="does not offer to be restarted"):
        restart_idrac(machine.idrac)
    assert machine.lane.acts == []


def test_a_proof_is_in_order_and_ends_in_its_power():
    cycle = TABLE[Way.COLD].proof
    assert cycle.is_given(["SYS1001", "RAC0182", "SYS1000"], "On")
    assert not cycle.is_given(["SYS1000", "SYS1001"], "On")
    assert not cycle.is_given(["SYS1001", "SYS1000"], "Off")
    assert not cycle.is_given(["SYS1001"], "On")
    assert Proof((frozenset({"RAC0182"}),)).is_given(["RAC0182"], "whatever")
