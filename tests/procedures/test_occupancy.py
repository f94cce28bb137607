"""Who uses the machine, and what it means where nobody tells."""

import pytest

from harness.consent import Consent
from harness.errors import AuthRefused, CommandFailed, Timeout, Unreachable
from harness.procedures.bios import bring_bios
from harness.procedures.boot import bring_up
from harness.procedures.occupancy import NOBODY, occupants


class People:
    """A host that prints what it is told, or fails."""

    def __init__(self, **printed):
        self.printed = printed

    def observe(self, *argv, timeout=60.0):
        printed = self.printed.get(argv[0].replace("-", "_"))
        if printed is None:
            raise CommandFailed(argv[0], 127, "not found")
        return printed


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (None, ""),
        (People(), ""),
        (People(who="", nvidia_smi=""), ""),
        (People(who="root     ttyS0        2026-01-05 08:00\n"), ""),
        (People(who="ann      pts/0        2026-01-05 08:00 (10.0.0.7)\n"), "ann logged in"),
        (People(who="", nvidia_smi="4711, python3\n4712, python3\n"), "2 processes on GPUs (4711, python3)"),
        (People(who="ann tty1 x\n", nvidia_smi="4711, python3\n"), "ann logged in and 1 processes on GPUs (4711, python3)"),
    ],
)
def test_people_and_gpu_processes_make_a_machine_busy(host, said):
    assert occupants(host).found == said


def test_a_host_that_does_not_answer_is_nobodys(lab):
    machine = lab("bios.preflight-lc")
    assert occupants(machine.host) == NOBODY


class Silent:
    """A host that fails at one question."""

    def __init__(self, error, at="who"):
        self.error, self.at = error, at

    def boot_id(self):
        return "one"

    def observe(self, *argv, timeout=60.0):
        if argv[0] == self.at:
            raise self.error
        return ""


SILENCES = [
    Silent(Timeout("who", 30, None)),
    Silent(CommandFailed("who", 127, "not found")),
    Silent(AuthRefused("ssh was refused the login")),
    Silent(Timeout("nvidia-smi", 30, None), at="nvidia-smi"),
]


@pytest.mark.parametrize("host", SILENCES)
def test_a_host_that_is_up_and_does_not_tell_is_not_written_to_or_restarted_unless_it_is_said_to_be_free(lab, host):
    machine = lab()
    idrac, tag = machine.idrac, machine.tag
    story = bring_bios(idrac, machine.platform, machine.apply, machine.handover, expected_tag=tag, host=host)
    boot = bring_up(idrac, host, None, machine.platform, machine.apply, machine.handover, expected_tag=tag)
    assert machine.lane.acts == []
    assert "--assume-free" in story.stopped
    assert "--assume-free" in boot.refusal
    free = Consent(apply=True, assume_free=True)
    assert bring_bios(idrac, machine.platform, free, machine.handover, expected_tag=tag, host=host).stopped == ""


@pytest.mark.parametrize("at", ["who", "nvidia-smi"])
def test_a_host_where_nothing_answers_is_free(lab, at):
    machine = lab()
    host = Silent(Unreachable("connection refused"), at)
    assert occupants(host) == NOBODY
    story = bring_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag, host=host)
    assert story.stopped == ""


def test_a_host_that_is_off_is_free_whatever_the_way_to_it_says(lab):
    machine = lab()
    machine.machine.reset("ForceOff")
    host = Silent(Timeout("who", 30, None))
    story = bring_bios(machine.idrac, machine.platform, machine.apply, machine.handover, expected_tag=machine.tag, host=host)
    assert story.stopped == ""


def test_what_a_host_tells_is_not_overruled_by_assuming_it_free(lab):
    machine = lab()
    free = Consent(apply=True, assume_free=True)
    busy = People(who="", nvidia_smi="4711, python3")
    story = bring_bios(machine.idrac, machine.platform, free, machine.handover, expected_tag=machine.tag, host=busy)
    assert machine.lane.acts == []
    assert "1 processes on GPUs (4711, python3)" in story.stopped
