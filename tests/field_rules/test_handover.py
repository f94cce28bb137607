"""At every end it is said what was left on the machine: success, failure, refusal, Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading

import pytest

from harness.errors import Unreachable

MODEL = "model-lqd8360"
APPLY = ("bios", "apply", "--bench", MODEL)
CLEAR = ("bios", "clear", "--bench", MODEL)
RESCUE = ("rescue", "--bench", MODEL, "--yes")
NOTHING = "nothing was left on the machine"

ENDS = {
    "an apply that succeeds": (APPLY, 0, NOTHING),
    "an apply of what is so already": ((*APPLY, "--attributes", "same.toml"), 0, NOTHING),
    "an apply that waits for a restart": (
        (*APPLY, "--no-reboot"),
        0,
        "Scheduled: applies at the next reboot by anyone; undo: DELETE",
    ),
    "an apply that is refused": ((*APPLY, "--fault", "bios.preflight-pending"), 3, NOTHING),
    "an apply whose danger was not named": ((*APPLY, "--attributes", "danger.toml"), 1, NOTHING),
    "an apply of what there is not": ((*APPLY, "--attributes", "unknown.toml"), 2, NOTHING),
    "an apply that fails before the reset": ((*APPLY, "--fault", "bios.job-before-reset"), 1, NOTHING),
    "an apply whose job stays": ((*APPLY, "--fault", "bios.job-state"), 1, NOTHING),
    "an apply that is refused the log-in": ((*APPLY, "--fault", "bmc.auth"), 3, NOTHING),
    "an apply to another machine": ((*APPLY, "--fault", "bmc.identity"), 3, NOTHING),
    "a clear that succeeds": ((*CLEAR, "ProcX2Apic", "--fault", "bios.preflight-pending"), 0, NOTHING),
    "a clear of nothing": (CLEAR, 0, NOTHING),
    "a clear that is refused": ((*CLEAR, "--fault", "bios.preflight-pending"), 2, NOTHING),
    "a rescue that succeeds": ((*RESCUE, "--fault", "boot.loop"), 0, "the host runs without its GPUs; undo: "),
    "a rescue of what is well": (RESCUE, 0, NOTHING),
    "a rescue of another machine": ((*RESCUE, "--fault", "bmc.identity"), 3, NOTHING),
}


@pytest.mark.parametrize(("words", "status", "left"), ENDS.values(), ids=ENDS)
def test_it_is_said_once_at_every_end(bringup, tmp_path, words, status, left):
    (tmp_path / "same.toml").write_text('NumLock = "On"\n')
    (tmp_path / "danger.toml").write_text('BootMode = "Bios"\n')
    (tmp_path / "unknown.toml").write_text('MmioAbove4gb = "Enabled"\n')
    done = bringup(*words)
    assert done.status == status, done.text
    (said,) = done.handovers
    assert left in said


def test_what_a_clear_may_have_left_is_said_where_its_answer_is_lost(bringup, wire):
    def lose(sent, machine):
        if "ClearPending" in sent.path:
            raise Unreachable("the connection was lost")

    wire.before = lose
    done = bringup(*CLEAR, "ProcX2Apic", "--fault", "bios.preflight-pending")
    assert done.status == 3, done.text
    assert done.handovers == ["ProcX2Apic may be there still; undo: bringup bios clear --bench model-lqd8360 ProcX2Apic"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(("--apply", "--stage", "bmc", "--stage", "bios"), 0, id="success", marks=pytest.mark.slow),
        pytest.param(("--apply", "--stage", "bios", "--fault", "bios.job-state"), 1, id="failure"),
    ],
)
def test_a_run_says_it_too(run_on_the_model, words, status):
    done = run_on_the_model(*words)
    assert done.status == status, done.text
    assert "left on the machine" in done.text


# ── ends that are asked for from outside ──────────────────────────────────────────────────────────────────────────


def stopped(service, wire, how, words, when):
    """Start the command, send the signal while it waits for the answer to the first request that matches, and return its end."""
    reached, goes_on = threading.Event(), threading.Event()

    def hold(_):
        reached.set()
        goes_on.wait(60)

    wire.once(lambda sent, _: when(sent), hold)
    with service.start(*words) as process:
        try:
            assert reached.wait(60), process.poll()
            process.send_signal(how)
            goes_on.set()
            out, err = process.communicate(timeout=60)
        finally:
            goes_on.set()
            process.kill()
    return process.returncode, out + err


CTRL_C, SIGTERM = pytest.param(signal.SIGINT, id="Ctrl-C"), pytest.param(signal.SIGTERM, id="SIGTERM")
SLOWLY = pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.slow)
every_command = pytest.mark.parametrize(
    ("words", "when"),
    [
        (("bios", "apply", "--bench", "BENCH"), lambda sent: "BiosRegistry" in sent.path),
        (("bios", "clear", "ProcX2Apic", "--bench", "BENCH"), lambda sent: sent.path.endswith("/Bios")),
        (("rescue", "--bench", "BENCH", "--yes"), lambda sent: "LCLog" in sent.path or "Lclog" in sent.path),
    ],
    ids=["apply", "clear", "rescue"],
)


@pytest.mark.socket
@pytest.mark.parametrize("how", [CTRL_C, SIGTERM])
@every_command
def test_a_command_that_is_stopped_before_it_wrote_says_that_nothing_was_left(served, wire, how, words, when):
    service = served()
    status, text = stopped(service, wire, how, words, when)
    assert status == 130, text
    assert text.count("hand-over: ") == 1
    assert f"hand-over: {NOTHING}" in text
    assert wire.writes == []
    assert service.sessions == 0


@pytest.mark.socket
def test_a_session_that_may_stay_open_is_said_in_the_same_line(served, wire):
    words = ("bios", "clear", "--bench", "BENCH")
    status, text = stopped(served(), wire, signal.SIGINT, words, lambda sent: sent.is_login)
    assert status == 130, text
    assert text.count("hand-over: ") == 1
    assert "may stay open" in text
    assert NOTHING not in text


@pytest.mark.socket
@pytest.mark.parametrize("how", [SLOWLY, SIGTERM])
def test_an_apply_that_is_stopped_after_its_reset_has_nobody_cut_off_its_job(served, wire, how):
    service = served(fast=True)
    status, text = stopped(service, wire, how, ("bios", "apply", "--bench", "BENCH"), lambda sent: sent.is_reset)
    assert status == 130, text
    assert text.count("hand-over: ") == 1
    assert "hand-over: BIOS values MmioAbove4Gb Disabled -> Enabled" in text
    assert "undo: once it has ended, set MmioAbove4Gb=Disabled" in text
    assert service.sessions == 0


@pytest.mark.socket
@pytest.mark.parametrize("how", [SLOWLY, SIGTERM])
def test_a_rescue_that_is_stopped_after_it_switched_off_says_that_the_host_is_off(served, wire, how):
    service = served("boot.loop")
    service.machine.reset("ForceRestart")
    service.clock.sleep(1500)
    words = ("rescue", "--bench", "BENCH", "--yes", "--chassis-off")
    status, text = stopped(service, wire, how, words, lambda sent: '"On"' in sent.body)
    assert status == 130, text
    assert text.count("hand-over: ") == 1
    assert "the host was asked to start without its GPUs; undo: look at its console" in text
    assert service.sessions == 0
