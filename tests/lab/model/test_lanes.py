from __future__ import annotations

import json

import pytest

from harness.clock import Deadline, VirtualClock
from harness.errors import AuthRefused, BenchError, Timeout, Unreachable, Untrusted, UsageMistake
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.lanes import ModelBmc, open_model
from harness.lab.model.machine import Machine
from harness.ports import CommandQuestion, HttpAnswer, HttpQuestion, Lanes

RESET = f"{names.SYSTEM}/Actions/ComputerSystem.Reset"


def get(lanes: Lanes, path: str = names.SYSTEM) -> HttpAnswer:
    assert lanes.bmc is not None
    return lanes.bmc.ask(HttpQuestion.observe("GET", path))


def act(lanes: Lanes, method: str, path: str, body: object) -> HttpAnswer:
    assert lanes.bmc is not None
    return lanes.bmc.ask(HttpQuestion.act(method, path, body))


def run(lanes: Lanes, *argv: str, name: str = "", timeout: float = 60.0) -> str:
    assert lanes.host is not None
    return lanes.host.ask(CommandQuestion.observe(*argv, name=name, timeout=timeout)).stdout


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_the_facts_say_that_nothing_here_is_hardware(clock: VirtualClock) -> None:
    facts = open_model(clock).facts
    assert (facts["source"], facts["service_tag"]) == ("model", parts.SERVICE_TAG)
    assert facts["agent pci"] == "the real worker, on the modelled machine's /sys"
    assert {facts[f"agent {worker}"] for worker in ("nvml", "telemetry", "p2p", "resnet50")} == {"modelled: no worker ran"}


def test_opening_asks_nothing_and_takes_no_time(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    lanes.close()
    assert clock.now() == 0.0


def test_the_first_question_that_needs_it_logs_in_once(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    assert get(lanes, names.ROOT).took == pytest.approx(0.15)
    assert get(lanes).took == pytest.approx(0.3)
    assert get(lanes).took == pytest.approx(0.15)
    answer = get(lanes, f"{names.LOG}/Entries?$filter=MessageId eq 'USR0030'")
    assert answer.body["Members@odata.count"] == 1
    assert answer.headers["odata-version"] == "4.0"
    assert answer.at == clock.now()


def test_a_wrong_password_is_one_attempt(clock: VirtualClock) -> None:
    machine = Machine(clock, frozenset({"bmc.auth"}))
    bmc = ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD)
    question = HttpQuestion.observe("GET", names.SYSTEM)
    for _ in range(4):
        with pytest.raises(AuthRefused, match="one attempt"):
            bmc.ask(question)
    refused = [entry for entry in machine.controller.log.entries if entry.message_id == "USR0031"]
    assert len(refused) == 1


def test_the_password_of_the_caller_is_used(clock: VirtualClock) -> None:
    with pytest.raises(AuthRefused):
        get(open_model(clock, password="guess"))


def test_another_certificate_ends_it_before_any_request(clock: VirtualClock) -> None:
    lanes = open_model(clock, frozenset({"bmc.tls"}))
    with pytest.raises(Untrusted, match="nothing was sent"):
        get(lanes, names.ROOT)
    assert clock.now() == 0.0


def test_another_machine_says_so_itself(clock: VirtualClock) -> None:
    lanes = open_model(clock, frozenset({"bmc.identity"}))
    assert get(lanes).body["SKU"] != parts.SERVICE_TAG
    assert lanes.facts["service_tag"] == parts.SERVICE_TAG


def test_all_sessions_taken_is_the_benchs_trouble(clock: VirtualClock) -> None:
    with pytest.raises(BenchError, match="RAC0218"):
        get(open_model(clock, frozenset({"bmc.auth.sessions"})))


def test_somebody_may_be_logged_in(clock: VirtualClock) -> None:
    assert "pts/0" in run(open_model(clock, frozenset({"bios.preflight-lc.occupied"})), "who")


def test_a_lost_session_is_opened_again_for_a_read_and_never_for_a_write(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    get(lanes)
    clock.sleep(2000)
    assert get(lanes).status == 200
    clock.sleep(2000)
    with pytest.raises(AuthRefused, match="not sent again"):
        act(lanes, "PATCH", names.SETTINGS, {"Attributes": {"MemTest": "Enabled"}})
    assert get(lanes, names.SETTINGS).body["Attributes"] == {}


def test_a_restarting_idrac_is_unreachable_and_then_answers_again(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    act(lanes, "POST", f"{names.MANAGER}/Actions/Manager.Reset", {})
    with pytest.raises(Unreachable):
        get(lanes)
    clock.sleep(200)
    assert get(lanes).status == 200


def test_closing_ends_the_session_and_the_lane(clock: VirtualClock) -> None:
    machine = Machine(clock)
    bmc = ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD)
    bmc.ask(HttpQuestion.observe("GET", names.SYSTEM))
    assert len(machine.controller.sessions.open) == 1
    bmc.close()
    bmc.close()
    assert machine.controller.sessions.open == ()
    with pytest.raises(Unreachable, match="closed"):
        bmc.ask(HttpQuestion.observe("GET", names.SYSTEM))


def test_closing_while_idrac_is_away_is_quiet(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    act(lanes, "POST", f"{names.MANAGER}/Actions/Manager.Reset", {})
    lanes.close()


def test_ssh_is_refused_until_the_system_is_up_and_its_boot_id_is_new(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    before = run(lanes, "cat", "/proc/sys/kernel/random/boot_id")
    act(lanes, "POST", RESET, {"ResetType": "ForceRestart"})
    clock.sleep(300)
    with pytest.raises(Unreachable, match="refused"):
        run(lanes, "uname", "-r")
    clock.sleep(600)
    after = run(lanes, "cat", "/proc/sys/kernel/random/boot_id")
    assert after != before
    assert run(lanes, "cat", "/proc/uptime").split()[0] < "999"


def test_the_host_answers_what_the_harness_asks(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    assert "console=ttyS0,115200" in run(lanes, "cat", "/proc/cmdline")
    assert run(lanes, "uname", "-r").startswith("6.1.")
    assert run(lanes, "who") == ""
    assert run(lanes, "dmesg").startswith("[    0.000000] Linux version")
    lines = run(lanes, name="agent pci", timeout=600).splitlines()
    assert json.loads(lines[-1]) == {"kind": "end", "lines": len(lines) - 1}


@pytest.mark.parametrize("argv", [("make", "coffee"), ("cat", "/etc/os-release")])
def test_a_command_that_is_not_modelled_is_the_benchs_and_says_so(clock: VirtualClock, argv: tuple[str, ...]) -> None:
    lanes = open_model(clock)
    assert lanes.host is not None
    with pytest.raises(BenchError, match=f"does not know the command `{' '.join(argv)}`: it is not modelled"):
        lanes.host.ask(CommandQuestion.observe(*argv))


def test_a_machine_that_was_brought_up_before_has_its_gpus_at_once(clock: VirtualClock) -> None:
    def drivable(lanes: Lanes) -> int:
        return run(lanes, name="agent nvml", timeout=600).count('"kind":"gpu"')

    assert drivable(open_model(clock)) == 0
    assert drivable(open_model(clock, delivered=False)) == 20


def test_only_the_populated_slots_have_gpus_and_fabric_parts(clock: VirtualClock) -> None:
    slots = frozenset({"jbogA/slot01", "jbogB/slot10"})
    lanes = open_model(clock, populated=slots, delivered=False)
    assert run(lanes, name="agent nvml", timeout=600).count('"kind":"gpu"') == 2
    assert lanes.fabric is not None
    told = lanes.fabric.ask(HttpQuestion.observe("GET", "/liqid/api/v2/device/info/gpu")).body
    assert {entry["slot"] for entry in told["response"]["data"]} == slots


def test_a_slot_that_the_model_lacks_is_one_line(clock: VirtualClock) -> None:
    with pytest.raises(UsageMistake, match="no slot 'jbogC/slot01'"):
        open_model(clock, populated=frozenset({"jbogC/slot01"}))


def test_lines_come_at_their_times_and_time_passes_with_them(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    assert lanes.host is not None
    seen: list[float] = []
    answer = lanes.host.ask(CommandQuestion.observe(name="agent nvml", timeout=600), lambda _, at: seen.append(at))
    assert seen == sorted(seen)
    assert len(seen) == len(answer.stdout.splitlines())
    assert answer.at == seen[-1] == clock.now()


def test_a_command_that_takes_too_long_times_out_with_its_last_line(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    with pytest.raises(Timeout) as caught:
        run(lanes, name="agent nvml", timeout=0.55)
    assert "hello" in str(caught.value.last)
    assert clock.now() == pytest.approx(0.55)


def test_a_renamed_card_ends_ssh_for_good_while_the_console_shows_the_login_prompt(clock: VirtualClock) -> None:
    lanes = open_model(clock, frozenset({"boot.host-reach"}))
    assert run(lanes, "who") == ""
    act(lanes, "POST", RESET, {"ResetType": "ForceRestart"})
    clock.sleep(1200)
    with pytest.raises(Unreachable):
        run(lanes, "who")
    assert lanes.console is not None
    assert b"login: " in lanes.console.read(Deadline.after(clock, 1)).data


def test_the_console_waits_for_the_next_byte_and_no_longer_than_the_deadline(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    assert lanes.console is not None
    quiet = lanes.console.read(Deadline.after(clock, 60))
    assert (quiet.data, clock.now()) == (b"", 60.0)
    act(lanes, "POST", RESET, {"ResetType": "ForceRestart"})
    reset_at = clock.now()
    first = lanes.console.read(Deadline.after(clock, 60))
    assert first.at == clock.now() == pytest.approx(reset_at + 3.0)
    text = b""
    while b"login:" not in text:
        chunk = lanes.console.read(Deadline.after(clock, 900))
        assert chunk.data
        text += chunk.data
    assert text.index(b"Assigning PCIe resources") < text.index(b"Linux version")
    assert "OSRunning" in str(get(lanes).body["BootProgress"])


def test_enter_brings_the_prompt_back_only_where_a_system_runs(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    assert lanes.console is not None
    lanes.console.write(b"\r")
    assert b"login: " in lanes.console.read(Deadline.after(clock, 1)).data
    act(lanes, "POST", RESET, {"ResetType": "ForceOff"})
    lanes.console.write(b"\r")
    assert lanes.console.read(Deadline.after(clock, 1)).data == b""


@pytest.mark.parametrize(("fault", "is_silent"), [("boot.console", False), ("boot.console.silent", True)])
def test_a_wrong_console_is_garbage_or_silent(clock: VirtualClock, fault: str, *, is_silent: bool) -> None:
    lanes = open_model(clock, frozenset({fault}))
    assert lanes.console is not None
    lanes.console.write(b"\r")
    data = lanes.console.read(Deadline.after(clock, 1)).data
    assert (data == b"") is is_silent
    assert b"login" not in data
    assert all(byte >= 0x80 for byte in data)


def test_the_fabric_lists_every_gpu_with_its_place_and_its_owner(clock: VirtualClock) -> None:
    lanes = open_model(clock)
    assert lanes.fabric is not None
    answer = lanes.fabric.ask(HttpQuestion.observe("GET", "/liqid/api/v2/device/info/gpu"))
    response = answer.body["response"]
    assert (response["code"], response["errors"], len(response["data"])) == (0, None, 20)
    assert {gpu["serial_num"] for gpu in response["data"]} == {gpu.serial for gpu in parts.GPUS}
    assert {gpu["slot"] for gpu in response["data"]} == {gpu.slot for gpu in parts.GPUS}
    assert {gpu["mname"] for gpu in response["data"]} == {"model-lqd8360"}


@pytest.mark.parametrize(
    ("question", "status"),
    [
        (HttpQuestion.observe("GET", "/liqid/api/v2/nothing"), 404),
        (HttpQuestion.act("POST", "/liqid/api/v2/fabric/reprogram", {}), 409),
        (HttpQuestion.act("POST", "/liqid/api/v2/machine", {}), 405),
    ],
)
def test_the_fabric_takes_no_write_but_an_edit_in_its_order(clock: VirtualClock, question: HttpQuestion, status: int) -> None:
    lanes = open_model(clock)
    assert lanes.fabric is not None
    answer = lanes.fabric.ask(question)
    assert (answer.status, answer.body["response"]["code"]) == (status, 1)
