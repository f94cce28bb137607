"""The last look before a write: consent, danger, the right machine."""

import pytest

from harness.consent import Consent
from harness.errors import BenchError, OwnershipError, UsageMistake
from harness.live.lock import MachineLock
from harness.ports import Effect, HttpAnswer, HttpQuestion
from harness.procedures.guard import SYSTEM, GuardedBmc, GuardedFabric

RESET = HttpQuestion.act("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "On"})


class Bmc:
    def __init__(self, *tags):
        self.tags, self.asked = list(tags), []

    def ask(self, question, on_line=None):
        self.asked.append(question.key)
        tag = self.tags.pop(0) if len(self.tags) > 1 else self.tags[0]
        body = {"@odata.type": "#ComputerSystem.v1_16_0.ComputerSystem", "SKU": tag} if question.path == SYSTEM else {}
        return HttpAnswer(200, {}, body, 0.0, 0.0)

    def close(self): ...


def guard(bmc, *, apply=True, danger=(), tag="MINE"):
    wrote = []
    return GuardedBmc(bmc, Consent(apply, frozenset(danger)), tag, lambda question: wrote.append(question.key)), wrote


def test_a_lock_that_was_stolen_meanwhile_stops_the_next_write_and_no_read(tmp_path):
    ours, theirs = (MachineLock("MINE", owner, tmp_path) for owner in ("ann@lab1 run", "ben@lab2 run"))
    ours.acquire()
    bmc = Bmc("MINE")
    guarded = GuardedBmc(bmc, Consent(apply=True), "MINE", lambda _: None, ours.check)
    guarded.ask(RESET)
    theirs.acquire(steal_from="ann@lab1 run")
    with pytest.raises(OwnershipError, match="not ours any more: held by 'ben@lab2 run'"):
        guarded.ask(RESET)
    assert bmc.asked.count(RESET.key) == 1
    guarded.ask(HttpQuestion.observe("GET", SYSTEM))


def test_another_system_of_the_same_bmc_does_not_stand_for_the_host():
    """Machines with an HGX board or a DPU show several systems; only the host has the tag."""

    class Several(Bmc):
        def ask(self, question, on_line=None):
            answer = super().ask(question)
            body = {"@odata.type": "#ComputerSystem.v1_16_0.ComputerSystem", "SKU": None}
            return HttpAnswer(200, {}, body, 0.0, 0.0) if "HGX" in question.path else answer

    bmc = Several("MINE")
    guarded, wrote = guard(bmc)
    guarded.ask(HttpQuestion.observe("GET", "/redfish/v1/Systems/HGX_Baseboard_0"))
    guarded.ask(RESET)
    assert wrote == [RESET.key]
    assert bmc.asked[-2:] == [f"GET {SYSTEM}", RESET.key]


def test_reads_pass_untouched():
    bmc = Bmc("OTHER")
    guarded, wrote = guard(bmc, apply=False)
    guarded.ask(HttpQuestion.observe("POST", "/redfish/v1/x/GetRemoteServicesAPIStatus", {}))
    assert bmc.asked == ["POST /redfish/v1/x/GetRemoteServicesAPIStatus"]
    assert wrote == []


def test_a_write_without_consent_asks_nothing():
    bmc = Bmc("MINE")
    guarded, _ = guard(bmc, apply=False)
    with pytest.raises(UsageMistake, match="needs --apply"):
        guarded.ask(RESET)
    assert bmc.asked == []


def test_the_tag_is_read_again_before_a_write():
    bmc = Bmc("MINE")
    guarded, wrote = guard(bmc)
    guarded.ask(RESET)
    assert bmc.asked == [f"GET {SYSTEM}", RESET.key]
    assert wrote == [RESET.key]


def test_a_read_of_the_tag_just_before_is_not_repeated_but_anything_between_voids_it():
    bmc = Bmc("MINE")
    guarded, _ = guard(bmc)
    guarded.ask(HttpQuestion.observe("GET", SYSTEM))
    guarded.ask(RESET)
    assert bmc.asked == [f"GET {SYSTEM}", RESET.key]
    guarded.ask(HttpQuestion.observe("GET", SYSTEM))
    guarded.ask(HttpQuestion.observe("GET", "/redfish/v1"))
    guarded.ask(RESET)
    assert bmc.asked[2:] == [f"GET {SYSTEM}", "GET /redfish/v1", f"GET {SYSTEM}", RESET.key]


@pytest.mark.parametrize(("answers", "pinned"), [("OTHER", "MINE"), ("", "MINE"), ("MINE", "")])
def test_another_machine_is_not_written_to(answers, pinned):
    bmc = Bmc(answers)
    guarded, wrote = guard(bmc, tag=pinned)
    with pytest.raises(BenchError, match="was not sent"):
        guarded.ask(RESET)
    assert RESET.key not in bmc.asked
    assert wrote == []


def test_a_machine_that_changes_between_two_writes_is_noticed():
    bmc = Bmc("MINE", "MINE", "OTHER")
    guarded, _ = guard(bmc)
    guarded.ask(RESET)
    with pytest.raises(BenchError, match="OTHER answers"):
        guarded.ask(RESET)
    assert bmc.asked.count(RESET.key) == 1


def test_a_dangerous_value_needs_its_class_named():
    change = HttpQuestion.act("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": {"BootMode": "Bios"}})
    bmc = Bmc("MINE")
    guarded, _ = guard(bmc)
    with pytest.raises(UsageMistake, match="--danger boot-mode"):
        guarded.ask(change)
    assert bmc.asked == []
    named, wrote = guard(bmc, danger=("boot-mode",))
    named.ask(change)
    assert wrote == [change.key]


@pytest.mark.parametrize(
    "question",
    [
        HttpQuestion.observe("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": {"BootMode": "Bios"}}),
        HttpQuestion.observe("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"}),
        HttpQuestion.observe("DELETE", "/redfish/v1/JobService/Jobs/JID_1"),
    ],
)
def test_a_write_that_is_called_a_read_is_a_write(question):
    bmc = Bmc("MINE")
    guarded, _ = guard(bmc, apply=False)
    with pytest.raises(UsageMistake, match="needs --apply"):
        guarded.ask(question)
    assert bmc.asked == []


class Controller:
    """A fabric's controller that takes everything."""

    def __init__(self):
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question.key)
        return HttpAnswer(200, {}, {}, 0.0, 0.0)

    def close(self): ...


MOVE = HttpQuestion.act("DELETE", "/liqid/api/v2/relate/gpu", {})


def test_parts_are_moved_in_the_fabric_with_consent_only():
    controller = Controller()
    guarded = GuardedFabric(controller, Consent())
    guarded.ask(HttpQuestion.observe("GET", "/liqid/api/v2/device/info/gpu"))
    for question in (MOVE, HttpQuestion("DELETE", MOVE.path, Effect.OBSERVE)):
        with pytest.raises(UsageMistake, match="needs --apply"):
            guarded.ask(question)
    assert controller.asked == ["GET /liqid/api/v2/device/info/gpu"]


def test_no_part_is_moved_once_the_lock_was_stolen(tmp_path):
    ours, theirs = (MachineLock("MINE", owner, tmp_path) for owner in ("ann@lab1 run", "ben@lab2 run"))
    ours.acquire()
    controller = Controller()
    guarded = GuardedFabric(controller, Consent(apply=True), ours.check)
    guarded.ask(MOVE)
    theirs.acquire(steal_from="ann@lab1 run")
    with pytest.raises(OwnershipError, match="not ours any more"):
        guarded.ask(MOVE)
    assert controller.asked == [MOVE.key]
