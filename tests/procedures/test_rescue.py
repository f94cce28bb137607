"""The rescue ladder on the modelled machine that loops with UEFI0256, and what keeps it from doing harm."""

from __future__ import annotations

import pytest

from harness.devices.fabric import Fabric, FabricPart
from harness.errors import BenchError, DeviceError
from harness.lab.model.fabric import OWNER, ModelFabric
from harness.limits import exactly
from harness.ports import HttpAnswer
from harness.procedures.rescue import BARE, DETACH, EVIDENCE, OFF, RESTORE, Rung, Scene, ladder, save_evidence, survey, take


def scene(machine, *, with_fabric=True, **more):
    fabric = Fabric(ModelFabric(machine.clock, machine.machine)) if with_fabric else None
    tag = more.pop("tag", machine.tag)
    return Scene(machine.idrac, machine.console, fabric, machine.platform, machine.apply, machine.handover, tag, OWNER, **more)


@pytest.fixture
def looping(lab):
    """A machine that has been restarting for ever for a while, as ``lab`` builds it."""

    def build(*faults):
        machine = lab("boot.loop", *faults)
        machine.machine.reset("ForceRestart")
        machine.clock.sleep(1500)
        return machine

    return build


def climb(machine, stage, trouble=None):
    trouble = trouble or survey(stage)
    return [take(stage, rung, trouble) for rung in ladder(stage, trouble) if rung.name != EVIDENCE]


def test_a_loop_is_rescued_to_a_bare_boot(looping):
    machine = looping()
    stage = scene(machine)
    trouble = survey(stage)
    assert "restarts for ever" in trouble.wrong
    assert "UEFI0256" in trouble.wrong
    assert machine.lane.acts == []
    rungs = ladder(stage, trouble)
    assert [rung.name for rung in rungs] == [EVIDENCE, OFF, DETACH, BARE]
    off, detached, bare = climb(machine, stage, trouble)
    assert off == "the host is off"
    assert detached.startswith("20 GPUs are detached: jbogA/slot01")
    assert bare.startswith("it started bare: OutOfPOST, OSRunning")
    assert machine.lane.resets == ["ForceOff", "On"]
    assert machine.machine.view().gpus == ()
    assert machine.machine.os_is_up
    assert "give it 1, 2, 4, 8, ... GPUs" in machine.handover.line()


def test_old_settings_are_put_back_once_it_runs_bare(looping):
    machine = looping()
    controller = machine.machine.controller
    controller.bios.current["NumLock"] = "Off"
    stage = scene(machine, restore={"NumLock": exactly("On"), "BootMode": exactly("Uefi")})
    assert ladder(stage, survey(stage))[-1].name == RESTORE
    assert climb(machine, stage)[-1] == "put back NumLock Off -> On"
    assert controller.bios.current["NumLock"] == "On"
    assert machine.machine.view().gpus == ()
    assert "the old settings are back" in machine.handover.line()


def test_a_job_that_waits_runs_in_the_bare_start(looping):
    machine = looping()
    controller = machine.machine.controller
    stage = scene(machine)
    trouble = survey(stage)
    _, off, *rest = ladder(stage, trouble)
    take(stage, off, trouble)
    controller.bios.stage({"NumLock": "Off"})
    job = controller.jobs.add("BIOSConfiguration", "Configure: BIOS.Setup.1-1")
    assert [take(stage, rung, trouble) for rung in rest][-1].endswith("no job waits and nothing is pending")
    assert controller.jobs.find(job.id).state == "Completed"
    assert controller.bios.current["NumLock"] == "Off"


def test_a_machine_that_starts_is_not_rescued(lab):
    machine = lab()
    stage = scene(machine)
    assert ladder(stage, survey(stage)) == ()
    machine.machine.reset("ForceRestart")
    machine.clock.sleep(30)
    trouble = survey(stage)
    assert (trouble.wrong, trouble.sight.server) == ("", "OutOfPOST")
    assert machine.lane.acts == []


def test_a_machine_that_is_merely_off_is_not_rescued(lab):
    machine = lab()
    machine.machine.reset("ForceOff")
    stage = scene(machine)
    assert survey(stage).wrong == ""


def test_a_machine_that_was_switched_off_in_a_loop_needs_no_further_force_off(looping):
    machine = looping()
    machine.machine.reset("ForceOff")
    stage = scene(machine)
    trouble = survey(stage)
    assert "off after it restarted" in trouble.wrong
    assert [rung.name for rung in ladder(stage, trouble)] == [EVIDENCE, DETACH, BARE]


@pytest.mark.parametrize(("fault", "says"), [("boot.post-halt", "waits for a key"), ("boot.post-progress", "POST stands still")])
def test_other_starts_that_do_not_end_are_named(lab, fault, says):
    machine = lab(fault)
    machine.machine.reset("ForceRestart")
    machine.clock.sleep(30)
    assert says in survey(scene(machine)).wrong


def test_a_job_at_work_is_not_cut_off(looping):
    machine = looping()
    job = machine.machine.controller.jobs.add("RAIDConfiguration", "somebody's", state="Running", message_id="PR20")
    stage = scene(machine)
    trouble = survey(stage)
    off = ladder(stage, trouble)[1]
    assert job.id in off.needs_hands
    with pytest.raises(BenchError, match="must not be cut off"):
        take(stage, off, trouble)
    with pytest.raises(BenchError, match="must not be cut off"):
        take(stage, Rung(OFF, "off"), trouble)
    assert machine.lane.acts == []


def test_without_a_fabric_it_says_that_hands_are_needed(looping):
    machine = looping()
    stage = scene(machine, with_fabric=False)
    trouble = survey(stage)
    detach, bare = ladder(stage, trouble)[2:]
    assert "power the expansion chassis down" in detach.needs_hands
    assert bare.needs_hands
    with pytest.raises(BenchError, match="hands are needed"):
        take(stage, detach, trouble)


def test_with_the_chassis_taken_away_by_hand_it_starts_bare(looping):
    machine = looping()
    stage = scene(machine, with_fabric=False, is_bare=True)
    trouble = survey(stage)
    machine.machine.detached = machine.machine.cabled
    assert climb(machine, stage, trouble)[-1].startswith("it started bare")


def test_a_bare_start_that_loops_too_says_that_hands_are_needed(looping):
    machine = looping()
    stage = scene(machine, with_fabric=False, is_bare=True)
    with pytest.raises(DeviceError, match=r"the bare start failed too: the host restarted .* hands are needed"):
        climb(machine, stage)


def test_gpus_are_taken_away_only_from_a_host_that_is_off(looping):
    machine = looping()
    stage = scene(machine)
    with pytest.raises(BenchError, match="only from one that is off"):
        take(stage, Rung(DETACH, "detach"), survey(stage))
    assert machine.machine.detached == frozenset()


def test_another_machine_is_never_touched(looping):
    machine = looping()
    stage = scene(machine, tag="OTHER01")
    with pytest.raises(BenchError, match="the bench pins OTHER01"):
        survey(stage)
    assert machine.lane.acts == []


def test_a_neighbours_gpu_is_left_alone(looping):
    machine = looping("pcie.four-view")
    stage = scene(machine)
    trouble = survey(stage)
    assert len(trouble.parts) == 19
    assert "jbogB/slot07" not in {part.slot for part in trouble.parts}


def test_evidence_holds_the_log_the_screen_and_the_console_and_writes_nothing(looping):
    machine = looping()
    stage = scene(machine)
    files = save_evidence(stage, survey(stage)).files
    assert b"UEFI0256" in files["lc-log.txt"]
    assert files["screen.png"].startswith(b"\x89PNG")
    assert b"Legacy I/O space is used up" in files["console.txt"]
    assert machine.lane.acts == []


class Refusing:
    """A fabric that takes an edit and refuses the part."""

    def __init__(self):
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question.key.replace("/liqid/api/v2/", ""))
        return HttpAnswer(409 if "relate" in question.path else 200, {}, None, 0.0, 0.0)

    def close(self):
        pass


def test_an_edit_of_the_fabric_that_fails_is_cancelled():
    lane = Refusing()
    with pytest.raises(DeviceError, match="relate/gpu: HTTP 409"):
        Fabric(lane).detach([FabricPart("jbogA/slot01", "4711", OWNER)])
    assert lane.asked == ["POST fabric/edit", "DELETE relate/gpu", "POST fabric/edit/cancel"]


def test_detached_parts_can_be_given_back(lab):
    machine = lab()
    fabric = Fabric(ModelFabric(machine.clock, machine.machine))
    parts = fabric.parts()
    fabric.detach(parts)
    assert {part.owner for part in fabric.parts()} == {""}
    fabric.attach(parts)
    assert fabric.parts() == parts


# ── what has changed since it was looked at ───────────────────────────────────────────────────────────────────────


def rung_named(name, stage, trouble):
    return next(rung for rung in ladder(stage, trouble) if rung.name == name)


@pytest.mark.parametrize(
    ("server", "told"),
    [("OutOfPOST", "the host got through POST"), ("EnteredF2Setup", "somebody took the host into EnteredF2Setup")],
)
def test_a_host_that_needs_no_rescue_any_more_is_not_switched_off(looping, server, told):
    machine = looping()
    stage = scene(machine)
    trouble = survey(stage)

    def moved(question, answer):
        if question.path.endswith("APIStatus"):
            return HttpAnswer(200, {}, answer.body | {"ServerStatus": server}, answer.at, answer.took)
        return answer

    machine.lane.after = moved
    with pytest.raises(BenchError, match=f"{told}.*nothing was switched off"):
        take(stage, rung_named(OFF, stage, trouble), trouble)
    assert machine.lane.acts == []


def test_a_prompt_that_somebody_answered_meanwhile_is_not_switched_off(lab):
    machine = lab("boot.post-halt")
    machine.machine.reset("ForceRestart")
    machine.clock.sleep(900)
    stage = scene(machine)
    trouble = survey(stage)
    machine.machine.reset("ForceRestart")
    machine.clock.sleep(60)
    with pytest.raises(BenchError, match="somebody answered the prompt"):
        take(stage, rung_named(OFF, stage, trouble), trouble)
    assert machine.lane.acts == []


def test_a_host_that_somebody_switched_on_meanwhile_is_not_restarted_as_bare(looping):
    machine = looping()
    stage = scene(machine)
    trouble = survey(stage)
    for name in (OFF, DETACH):
        take(stage, rung_named(name, stage, trouble), trouble)
    machine.machine.reset("On")
    machine.clock.sleep(5)
    with pytest.raises(BenchError, match="somebody else switched it on"):
        take(stage, rung_named(BARE, stage, trouble), trouble)
    assert machine.lane.resets == ["ForceOff"]


def test_the_evidence_has_the_settings_in_effect_and_pending(looping):
    machine = looping()
    machine.machine.controller.bios.pending |= {"NumLock": "Off", "SetupPassword": "hunter2"}
    stage = scene(machine)
    kept = save_evidence(stage, survey(stage)).files
    settings = kept["settings.txt"].decode()
    assert "\nMmioAbove4Gb = " in settings
    assert settings.split("pending:\n")[1].splitlines() == ["NumLock = Off", "SetupPassword = (not shown: a secret)"]
    assert b"boot video" in kept["boot-video.txt"]
    assert kept["screen.png"]
