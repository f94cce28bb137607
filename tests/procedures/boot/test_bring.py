from __future__ import annotations

import shutil
import socket

import pytest

from harness.devices.console import Reading, Transcript
from harness.devices.host import Host
from harness.errors import AuthRefused, BenchError, Blame, Blocked, Unreachable, Untrusted
from harness.live.ssh import SshCommands
from harness.ports import Chunk, HttpAnswer
from harness.procedures.boot import bring_up
from harness.procedures.boot.story import CONSOLE, HALT, LOOP, NEW_BOOT, PROGRESS, REACH
from harness.procedures.boot.watch import CUT_OFF
from harness.procedures.handover import NOTHING


def bring(machine, consent=None, **more):
    handles = {"host": machine.host, "console": machine.console} | more
    return bring_up(
        machine.idrac,
        handles["host"],
        handles["console"],
        machine.platform,
        consent or machine.apply,
        machine.handover,
        expected_tag=machine.tag,
        since=handles.get("since"),
        changed=handles.get("changed", ""),
    )


def test_a_restart_is_sent_once_and_watched_to_the_operating_system(lab):
    machine = lab()
    story = bring(machine)
    assert (story.stopped, story.stopped_by) == ("", "")
    assert machine.lane.resets == ["ForceRestart"] == [question.body["ResetType"] for question in machine.lane.acts]
    assert story.boot_id != story.previous_boot_id != ""
    assert story.reset.at <= story.began_at < story.through_at < story.reached_at
    assert 500 < story.since_reset(story.through_at) < 700
    assert (story.restarts, story.losses, story.screen.image) == (0, (), b"")
    assert machine.handover.line() == NOTHING


def test_the_stages_of_post_are_kept_with_their_seconds(lab):
    stages = dict(bring(lab()).stages)
    assert 340 < stages["PCIResourceConfigStarted"] < 400
    assert 70 < stages["MemoryInitializationStarted"] < 100


def test_the_console_is_drained_while_it_boots(lab):
    story = bring(lab())
    assert story.console.reading is Reading.BOOT
    assert story.console.text.rstrip().endswith("login:")


def test_the_log_since_the_reset_is_kept_and_nothing_older(lab):
    machine = lab()
    story = bring(machine)
    assert [event.message_id for event in story.events][:2] == ["RAC0703", "SYS1003"]


def test_a_stale_status_right_after_the_reset_proves_nothing(lab):
    """The first looks after a reset may still show the old boot, running and out of POST."""
    machine = lab()
    left = {"looks": 6}

    def stale(question, answer):
        if machine.lane.resets and left["looks"] > 0 and question.path.endswith(("APIStatus", "System.Embedded.1")):
            left["looks"] -= 1
            old = {"ServerStatus": "OutOfPOST"} if question.method == "POST" else {"BootProgress": {"LastState": "OSRunning"}}
            return HttpAnswer(answer.status, answer.headers, answer.body | old, answer.at, answer.took)
        return answer

    machine.lane.after = stale
    story = bring(machine)
    assert story.stopped == ""
    assert story.boot_id != story.previous_boot_id


def test_a_machine_that_is_off_is_switched_on(lab):
    machine = lab()
    machine.machine.reset("ForceOff")
    story = bring(machine)
    assert story.stopped == ""
    assert machine.lane.resets == ["On"]
    assert story.previous_boot_id == ""


def test_a_boot_that_is_under_way_is_let_end_before_the_restart(lab):
    machine = lab()
    machine.machine.reset("ForceRestart")
    story = bring(machine)
    assert story.stopped == ""
    assert story.reset.at > 600
    assert story.previous_boot_id != ""


def test_an_idrac_that_restarts_meanwhile_is_endured(lab):
    machine = lab()

    def restart(question, answer):
        if "ComputerSystem.Reset" in question.path:
            machine.machine.controller.timeline.after(60.0, lambda: machine.machine.controller.restart("watchdog"))
        return answer

    machine.lane.after = restart
    story = bring(machine)
    assert story.stopped == ""
    assert len(story.losses) == 1


@pytest.mark.parametrize(
    ("fault", "check", "blame"),
    [
        ("boot.new-boot", NEW_BOOT, Blame.PRODUCT),
        ("boot.post-halt", HALT, Blame.PRODUCT),
        ("boot.loop", LOOP, Blame.PRODUCT),
        ("boot.post-progress", PROGRESS, Blame.PRODUCT),
        ("boot.host-reach", REACH, Blame.BENCH),
    ],
)
def test_every_fault_stops_at_its_check_with_evidence(lab, fault, check, blame):
    machine = lab(fault)
    story = bring(machine)
    assert (story.stopped_by, story.stop.blame) == (check, blame)
    assert story.screen.image
    assert story.last is not None
    assert machine.handover.line() != NOTHING
    assert machine.lane.resets[0] == "ForceRestart"


def test_a_reset_that_does_nothing_is_known_in_five_minutes(lab):
    machine = lab("boot.new-boot")
    story = bring(machine)
    assert story.began_at is None
    assert machine.clock.now() - story.reset.at < 330
    assert machine.lane.resets == ["ForceRestart"]


def test_a_halt_is_known_at_once_and_quotes_the_console(lab):
    machine = lab("boot.post-halt")
    story = bring(machine)
    assert "HaltedF1/F2Prompt" in story.stopped
    assert "console: A problem was found. Press F1" in story.stopped
    assert "PST0080 (#" in story.stopped
    assert "screenshot: 72 bytes" in story.stopped
    assert "next: read the reason on the screen" in story.stopped
    assert "\n" not in machine.handover.line()
    assert machine.clock.now() - story.last.at < 5
    assert "PST0080" in [event.message_id for event in story.events]


def test_no_progress_is_given_fifteen_minutes(lab):
    machine = lab("boot.post-progress")
    story = bring(machine)
    assert "no progress in POST for 15 min 7 s: InPOST, PCIResourceConfigStarted" in story.stopped
    assert 900 <= machine.clock.now() - story.last.at < 930


def test_a_loop_is_counted_beyond_the_resets_a_bios_job_may_add(lab):
    machine = lab("boot.loop")
    story = bring(machine)
    assert story.restarts == machine.platform.boot.extra_resets + 1
    assert "restarted 3 times by itself (UEFI0256)" in story.stopped


def test_a_looping_machine_is_switched_off_and_hands_are_asked_for(lab):
    machine = lab("boot.loop")
    story = bring(machine)
    assert machine.lane.resets == ["ForceRestart", "ForceOff"]
    assert machine.machine.status().power == "Off"
    assert "hands are needed" in story.stopped
    assert "changed before: ForceRestart" in story.stopped
    assert "undo: ComputerSystem.Reset On" in machine.handover.line()


def test_a_host_that_is_alive_on_its_console_is_the_benchs(lab):
    story = bring(lab("boot.host-reach"))
    assert "login:" in story.stopped
    assert "connection refused" in story.stopped


def test_a_host_that_says_nothing_anywhere_is_the_products(lab):
    story = bring(lab("boot.host-reach", "boot.console.silent"))
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.PRODUCT)


class Behind:
    """The host as it is behind a lane that fails from the reset on."""

    def __init__(self, machine, error, before=False, is_on_console=False):
        self.machine, self.error, self.before, self.asked = machine, error, before, 0
        self.is_on_console = is_on_console

    def boot_id(self):
        if self.before or self.machine.lane.resets:
            self.asked += 1
            raise self.error
        return self.machine.host.boot_id()

    def observe(self, *argv, timeout=60.0):
        return "" if argv == ("who",) else self.machine.host.observe(*argv, timeout=timeout)


class Heard:
    """A console that says one thing, when POST is through for the first time."""

    def __init__(self, machine, text):
        self.machine, self.left = machine, [text.encode()]

    def drain(self):
        if not self.left or not self.machine.lane.resets or self.machine.machine.status().server != "OutOfPOST":
            return Transcript()
        return Transcript((Chunk(self.left.pop(), self.machine.clock.now()),))


GONE = Unreachable("the host does not answer")


def test_a_panic_on_the_console_ends_the_wait_at_once_and_is_the_first_thing_said(lab):
    platform = lab().platform
    usual = platform.model_copy(update={"boot": platform.boot.model_copy(update={"usual": 600.0})})
    machine = lab(platform=usual)
    host = Behind(machine, GONE)
    panic = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"
    console = Heard(machine, f"[    3.574738] {panic}\r\n[    3.600000] Kernel Offset: disabled\r\n")
    story = bring(machine, host=host, console=console, changed="BIOS SriovGlobalEnable Disabled -> Enabled")
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.PRODUCT)
    assert host.asked == 0
    assert machine.clock.now() - story.through_at < 30
    first, *more = story.stopped.splitlines()
    assert first.startswith(f"{panic}; no new boot in ")
    assert "(usual 10 min): OutOfPOST, OSBootStarted for " in first
    assert "console: [    3.600000] Kernel Offset: disabled" in more
    assert "changed before: BIOS SriovGlobalEnable Disabled -> Enabled and ForceRestart" in more
    assert more[-1].startswith("next: start a kernel that is known to work")


@pytest.mark.parametrize(("said", "reading"), [("", "silent"), ("5.01 4.90\r\n", "strange"), ("\udc80" * 9, "garbage")])
def test_a_console_without_a_boot_that_is_the_only_way_to_the_host_is_the_benchs(lab, said, reading):
    machine = lab()
    console = Heard(machine, "")
    console.left = [said.encode("utf-8", "surrogateescape")]
    story = bring(machine, host=Behind(machine, GONE, is_on_console=True), console=console)
    assert (story.stopped_by, story.stop.blame) == (CONSOLE, Blame.BENCH)
    assert story.stopped.startswith(f"the console, the only way to the host, is {reading}, and for 15 min")
    assert "the BMC says OutOfPOST, OSRunning" in story.stopped
    assert "next: find the port and the rate that talk" in story.stopped
    story.reached(PROGRESS)
    with pytest.raises(Blocked, match=r"BLOCKED by boot\.console"):
        story.reached(REACH)


def test_the_login_prompt_of_a_boot_before_this_one_proves_nothing(lab):
    """It came up, restarted by itself and stayed away: not the network is to blame."""
    machine = lab()
    console = Heard(machine, "r640 login: ")
    story = bring(machine, host=RestartingOnce(machine), console=console)
    assert console.left == []
    assert story.restarts == 1
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.PRODUCT)


class RestartingOnce(Behind):
    """A host that never answers, and restarts when it is asked for the first time after the reset."""

    def __init__(self, machine):
        super().__init__(machine, GONE)

    def boot_id(self):
        if self.machine.lane.resets and not self.asked:
            self.machine.machine.reset("ForceRestart")
        return super().boot_id()


def test_what_the_console_said_while_the_host_was_asked_for_the_last_time_is_kept(lab):
    """An ssh that connects while the machine starts takes as long as the start."""
    machine = lab()
    said = [b"[    0.000000] Linux version 6.1.0\r\n"]

    class Starting(Behind):
        def boot_id(self):
            answer = machine.host.boot_id()  # it raises until the host is up
            self.asked += bool(machine.lane.resets)
            return answer

    class Late:
        def drain(self):
            return Transcript((Chunk(said.pop(), machine.clock.now()),)) if host.asked and said else Transcript()

    host = Starting(machine, GONE)
    story = bring(machine, host=host, console=Late())
    assert story.stopped == ""
    assert (host.asked, story.console.reading) == (1, Reading.BOOT)


def test_a_login_prompt_is_seen_where_the_kernel_talks_behind_it(lab):
    machine = lab()
    console = Heard(machine, "r640 login: [    3.874326] random: crng init done\r\n")
    story = bring(machine, host=Behind(machine, GONE), console=console)
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.BENCH)
    assert story.stopped.startswith("the operating system runs (seen on the console) and the host does not answer for 5 min")


@pytest.mark.parametrize(
    "error", [AuthRefused("bench: ssh was refused the login"), Untrusted("bench: the host key is not the known one")]
)
@pytest.mark.parametrize("has_console", [True, False])
def test_a_host_that_lets_nobody_in_ends_the_wait_at_once_and_is_the_benchs(lab, error, has_console):
    machine = lab("boot.console.silent") if has_console else lab()
    host = Behind(machine, error)
    story = bring(machine, host=host, **({} if has_console else {"console": None}))
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.BENCH)
    assert host.asked == 1
    assert str(error) in story.stopped
    assert "next:" not in story.stopped
    assert machine.clock.now() - story.through_at < 120
    assert machine.handover.line() == NOTHING


@pytest.mark.parametrize(
    "error", [AuthRefused("bench: ssh was refused the login"), Untrusted("bench: the host key is not the known one")]
)
def test_a_host_that_lets_nobody_in_is_not_restarted_because_nobody_could_see_it_come_back(lab, error):
    machine = lab()
    story = bring(machine, host=Behind(machine, error, before=True))
    assert machine.lane.acts == []
    assert story.refusal == f"the host does not let us in: {error}"
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.BENCH)


@pytest.mark.parametrize(
    ("faults", "blame", "patience"),
    [((), Blame.BENCH, CUT_OFF), (("boot.console.silent",), Blame.PRODUCT, 900)],
    ids=["login on the console", "silent console"],
)
def test_dead_ssh_is_the_benchs_where_the_console_shows_a_login(lab, faults, blame, patience):
    """The real ssh against a closed port: what it says reaches the verdict, and it is tried again until patience ends."""
    if shutil.which("ssh") is None:
        pytest.skip("needs the OpenSSH client: apt-get install openssh-client")
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    machine = lab(*faults)
    lane = SshCommands("root@127.0.0.1", machine.clock, options=("-F", "none", "-p", str(port)))
    try:
        story = bring(machine, host=Host(lane, machine.clock))
    finally:
        lane.close()
    assert (story.stopped_by, story.stop.blame) == (REACH, blame)
    assert "Connection refused; nothing was run" in story.stopped
    assert patience - 60 <= machine.clock.now() - story.through_at < patience + 120


@pytest.mark.parametrize(("fault", "reading"), [("boot.console", Reading.GARBAGE), ("boot.console.silent", Reading.SILENT)])
def test_a_bad_console_stops_no_boot(lab, fault, reading):
    story = bring(lab(fault))
    assert story.stopped == ""
    assert story.console.reading is reading


def test_a_console_that_breaks_off_stops_no_boot(lab):
    class Broken:
        def drain(self):
            raise Unreachable("the line was cut")

    story = bring(lab(), console=Broken())
    assert story.stopped == ""
    assert story.console_error == "the line was cut"


def test_what_the_machine_does_after_a_power_cut_is_read(lab):
    story = bring(lab("boot.power-after-ac"))
    assert (story.stopped, story.ac_recovery, story.system.power_restore_policy) == ("", "Last", "AlwaysOff")


def test_without_a_host_the_operating_system_is_known_by_the_bmc(lab):
    machine = lab()
    story = bring(machine, host=None, console=None)
    assert story.stopped == ""
    assert (story.has_host, story.console) == (False, None)
    assert story.last.progress == "OSRunning"


def test_without_consent_nothing_is_restarted(lab):
    machine = lab()
    mark = machine.idrac.lc_mark()
    story = bring(machine, machine.look, since=mark)
    assert machine.lane.acts == []
    assert (story.reset, story.stopped, story.console) == (None, "", None)
    assert story.boot_id == machine.machine.boot_id
    assert (story.restarts, story.stages) == (0, ())
    assert machine.handover.line() == NOTHING


def test_without_consent_a_host_that_is_away_is_told(lab):
    machine = lab()
    machine.machine.reset("ForceOff")
    story = bring(machine, machine.look)
    assert machine.lane.acts == []
    assert (story.stopped_by, story.stop.blame) == (REACH, Blame.BENCH)
    assert "PoweredOff" in story.stopped


def test_without_consent_a_halted_post_is_told(lab):
    machine = lab("boot.post-halt")
    machine.machine.reset("ForceRestart")
    machine.clock.sleep(900)
    story = bring(machine, machine.look)
    assert machine.lane.acts == []
    assert story.stopped_by == HALT
    assert story.screen.image


@pytest.mark.parametrize(
    ("fault", "said"), [("bios.preflight-jobs", "would run at the reset"), ("bios.preflight-lc", "left the host in LCUSC")]
)
def test_a_machine_that_is_not_free_is_not_restarted(lab, fault, said):
    machine = lab(fault)
    story = bring(machine)
    assert machine.lane.acts == []
    assert said in story.refusal
    assert story.reset is None


def test_a_machine_in_use_is_not_restarted(lab):
    machine = lab()

    class Busy:
        def boot_id(self):
            return "one"

        def observe(self, *argv, timeout=60.0):
            return "ann pts/0 2026-01-05 08:00\n" if argv == ("who",) else ""

    story = bring(machine, host=Busy())
    assert machine.lane.acts == []
    assert story.refusal == "ann logged in"


def test_another_machine_is_not_restarted(lab):
    machine = lab("bmc.identity")
    with pytest.raises(BenchError, match="MODEL99"):
        bring(machine)
    assert machine.lane.acts == []


def test_an_interrupt_leaves_the_handover_saying_so(lab):
    machine = lab()

    def interrupt(question):
        if machine.lane.resets and "APIStatus" in question.path:
            raise KeyboardInterrupt

    machine.lane.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        bring(machine)
    assert "a restart was asked for" in machine.handover.line()
