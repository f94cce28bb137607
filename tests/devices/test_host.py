import json
import subprocess
import sys

import pytest

from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.errors import BenchError, Blame, CommandFailed, DeviceError
from harness.ports import CommandAnswer, Effect


class Scripted:
    """A lane with one answer; keeps what it was asked."""

    def __init__(self, status=0, stdout="", stderr=""):
        self.answer = CommandAnswer(status, stdout, stderr, 1.0, 1.0)
        self.asked = []

    def ask(self, question, on_line=None):
        self.asked.append(question)
        if on_line is not None:
            for line in self.answer.stdout.splitlines():
                on_line(line, 1.0)
        return self.answer

    def close(self):
        pass


class Here:
    """A lane that runs commands on the machine of the test."""

    def ask(self, question, on_line=None):
        done = subprocess.run(question.argv, input=question.stdin, capture_output=True, check=False)
        return CommandAnswer(done.returncode, done.stdout.decode(), done.stderr.decode(), 0.0, 0.0)

    def close(self):
        pass


def printed(*objects):
    return "".join(json.dumps(line) + "\n" for line in (*objects, {"kind": "end", "lines": len(objects)}))


def test_a_command_is_observed_under_its_own_words():
    asks = Scripted(stdout="6.1.0-28-amd64\n")
    assert Host(asks, VirtualClock()).kernel() == "6.1.0-28-amd64"
    (question,) = asks.asked
    assert (question.key, question.effect) == ("uname -r", Effect.OBSERVE)


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ("boot_id", "cat /proc/sys/kernel/random/boot_id"),
        ("command_line", "cat /proc/cmdline"),
        ("kernel", "uname -r"),
        ("kernel_log", "dmesg"),
    ],
)
def test_each_fact_is_asked_anew_and_by_its_fixed_command(verb, key):
    asks = Scripted(stdout="x\n")
    host = Host(asks, VirtualClock())
    assert getattr(host, verb)() in ("x", ("x",))
    assert getattr(host, verb)() in ("x", ("x",))
    assert [question.key for question in asks.asked] == [key, key]


def test_a_failing_command_is_the_products_and_says_its_last_words():
    host = Host(Scripted(1, stderr="warning: x\ndmesg: read kernel buffer failed: Operation not permitted\n\n"), VirtualClock())
    with pytest.raises(CommandFailed) as caught:
        host.kernel_log()
    assert (caught.value.command, caught.value.status) == ("dmesg", 1)
    assert caught.value.tail == "dmesg: read kernel buffer failed: Operation not permitted"
    assert caught.value.blame is Blame.PRODUCT


def test_the_agent_is_a_named_question_without_its_payload():
    asks = Scripted(stdout=printed({"kind": "pair"}))
    assert Host(asks, VirtualClock()).agent("p2p", "--loops", "3", timeout=600) == ({"kind": "pair"},)
    (question,) = asks.asked
    assert question.key == "agent p2p --loops 3"
    assert (question.effect, question.timeout) == (Effect.OBSERVE, 600)
    assert question.argv[:2] == ("python3", "-c")
    assert question.argv[3:] == ("p2p", "--loops", "3")
    assert question.stdin.startswith(b"PK")


def test_lines_come_as_they_are_printed():
    seen = []
    asks = Scripted(stdout=printed({"kind": "pair", "bad": 0}))
    Host(asks, VirtualClock()).agent("p2p", on_line=lambda line, at: seen.append(json.loads(line)["kind"]))
    assert seen == ["pair", "end"]


def test_error_objects_are_handed_on_and_other_lines_left_out():
    error = {"kind": "error", "what": "torch", "why": "not installed", "do": "set host.python"}
    asks = Scripted(stdout="W0000 some library talks\n{'not': 'json'}\n" + printed({"kind": "gpu"}, error))
    assert Host(asks, VirtualClock()).agent("resnet50") == ({"kind": "gpu"}, error)


@pytest.mark.parametrize(
    ("worker", "python", "wrapper", "start"),
    [
        ("pci", "python3", "", ["python3"]),
        ("pci", "/opt/conda/bin/python", "", ["/opt/conda/bin/python"]),
        ("p2p", "/opt/conda/bin/python", "", ["/opt/conda/bin/python"]),
        ("p2p", "python3.10", "docker exec -i 'my box'", ["docker", "exec", "-i", "my box", "python3.10"]),
        ("nvml", "python3", "docker exec -i torch", ["docker", "exec", "-i", "torch", "python3"]),
        ("pci", "/opt/conda/bin/python", "docker exec -i torch", ["python3"]),
    ],
)
def test_gpu_workers_run_in_the_wrapper_and_pci_on_the_host_itself(worker, python, wrapper, start):
    asks = Scripted(stdout=printed())
    Host(asks, VirtualClock(), python=python, wrapper=wrapper).agent(worker)
    argv = list(asks.asked[0].argv)
    assert argv[: argv.index("-c")] == start


@pytest.mark.parametrize("status", [126, 127])
def test_a_missing_python_is_the_benchs_and_says_what_to_install(status):
    host = Host(Scripted(status, stderr="bash: python3: command not found\n"), VirtualClock())
    with pytest.raises(BenchError) as caught:
        host.agent("pci")
    assert str(caught.value) == (
        f"agent pci: 'python3' cannot be started on the host (exit status {status}: bash: python3: command not found); "
        "install Python 3.6 or later there (package python3), or name it with host.python in the bench file"
    )


def test_an_agent_that_did_not_arrive_is_the_benchs():
    why = "the agent did not arrive: nothing came on stdin (a container needs `docker exec -i`)"
    with pytest.raises(BenchError, match="docker exec -i"):
        Host(Scripted(97, stderr=why + "\n"), VirtualClock()).agent("nvml")


def test_a_worker_that_cannot_be_loaded_there_is_the_benchs():
    said = "worker resnet50: it cannot be loaded here: No module named 'agent.resnet50'\n"
    with pytest.raises(BenchError, match="agent resnet50: worker resnet50: it cannot be loaded here"):
        Host(Scripted(3, stderr=said), VirtualClock()).agent("resnet50")


def test_a_worker_that_broke_is_a_failed_command():
    with pytest.raises(CommandFailed, match="agent nvml: exit status 1: ZeroDivisionError: x"):
        Host(Scripted(1, printed({"kind": "error"}), "Traceback ...\nZeroDivisionError: x\n"), VirtualClock()).agent("nvml")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "breaks off after 0 objects, the end line is missing"),
        ('{"kind": "gpu"}\n', "breaks off after 1 objects, the end line is missing"),
        ('{"kind": "gpu"}\n{"kind": "end", "lines": 2}\n', "1 objects arrived of the 2 that its end line counts"),
        ('{"kind": "gpu"}\n{"kind": "end"}\n', "1 objects arrived of the None that its end line counts"),
        ('{"kind": "gpu", "uuid"\n{"kind": "end", "lines": 1}\n', "has a broken line after 0 objects"),
    ],
)
def test_output_that_is_cut_short_is_told(output, problem):
    with pytest.raises(DeviceError, match=problem):
        Host(Scripted(stdout=output), VirtualClock()).agent("nvml")


def test_the_agent_really_runs():
    objects = Host(Here(), VirtualClock(), python=sys.executable).agent("pci")
    assert objects[0]["kind"] == "host"
    assert objects[0]["boot_id"] == Host(Here(), VirtualClock()).boot_id()


def test_an_unknown_worker_is_a_failed_command():
    with pytest.raises(CommandFailed, match="agent gpio: exit status 2: worker: no worker is called 'gpio'"):
        Host(Here(), VirtualClock(), python=sys.executable).agent("gpio")
