from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.devices.host import Host
from harness.errors import AuthRefused, BenchError, Timeout, Unreachable, Untrusted, UsageMistake
from harness.live.local import LocalCommands
from harness.live.ssh import SshCommands
from harness.live.ssh_connection import PREFIX, Connection
from harness.ports import CommandQuestion

pytestmark = pytest.mark.socket

AWKWARD = (
    "",
    " ",
    "a b",
    "-n",
    "--",
    "it's",
    '"q"',
    "$HOME `id` $(id)",
    "a\nb\n",
    "back\\slash\\n",
    "!h",
    "%s*?[x]",
    "ü\u2028🙂",
    "\x1e\t",
)
GRANDCHILD = "sleep 60 & echo $!; echo started; wait"


@pytest.fixture
def there(sshd, clock) -> Iterator[SshCommands]:
    lane = SshCommands("bench", clock, options=sshd.options)
    yield lane
    lane.close()


@pytest.fixture
def lane_with(clock) -> Iterator[Callable[..., SshCommands]]:
    lanes: list[SshCommands] = []

    def build(*options: str, address: str = "bench") -> SshCommands:
        lanes.append(SshCommands(address, clock, options=options))
        return lanes[-1]

    yield build
    for lane in lanes:
        lane.close()


@pytest.fixture(autouse=True)
def private_temp(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """A short temporary folder of the test's own, in which nothing may be left, and no process that knows it."""
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert soon(lambda: not processes(str(folder))), processes(str(folder))
    assert list(folder.iterdir()) == []
    folder.rmdir()


def processes(word: str) -> list[str]:
    """The command lines, of processes that live, in which ``word`` stands."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace") if entry.name.isdigit() else ""
        except OSError:
            continue
        if word in line and int(entry.name) != os.getpid():
            found.append(f"{entry.name} {line}")
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def soon(holds: Callable[[], bool], seconds: float = 5) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def shell(script: str, **other) -> CommandQuestion:
    return CommandQuestion.observe("sh", "-c", script, **other)


def python(program: str, *arguments: str, **other) -> CommandQuestion:
    return CommandQuestion.observe(sys.executable, "-c", program, *arguments, **other)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


class TestAnswers:
    def test_output_errors_and_status_are_told_apart(self, there):
        answer = there.ask(shell("echo out; echo err >&2; exit 3"))
        assert (answer.stdout, answer.stderr, answer.status) == ("out\n", "err\n", 3)

    def test_without_a_last_newline_nothing_is_added(self, there):
        answer = there.ask(shell("printf out; printf err >&2"))
        assert (answer.stdout, answer.stderr) == ("out", "err")

    def test_at_and_took_are_the_clocks(self, there, clock):
        before = clock.now()
        answer = there.ask(CommandQuestion.observe("sleep", "0.2"))
        assert 0.2 <= answer.took < 10
        assert before + answer.took <= answer.at + 1e-6
        assert answer.at <= clock.now()

    def test_words_arrive_as_they_are(self, there):
        answer = there.ask(python("import sys; sys.stdout.write(ascii(sys.argv[1:]))", *AWKWARD))
        assert answer.stdout == ascii(list(AWKWARD))

    def test_a_program_is_never_the_shells_own_of_that_name(self, there):
        assert there.ask(CommandQuestion.observe("printf", "%d\\n", "1x")).status == 1
        assert there.ask(CommandQuestion.observe("echo", r"a\tb")).stdout == "a\\tb\n"
        assert there.ask(CommandQuestion.observe("exit", "0")).status == 127

    def test_stdin_is_binary_and_ends(self, there):
        data = os.urandom(200_000) + bytes(range(256))
        program = "import sys, hashlib; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())"
        assert there.ask(python(program, stdin=data)).stdout == f"{len(data)} {hashlib.sha256(data).hexdigest()}\n"

    def test_without_stdin_a_reader_sees_the_end_at_once(self, there):
        assert there.ask(CommandQuestion.observe("cat", timeout=20)).stdout == ""

    def test_a_command_that_ignores_its_stdin_answers_all_the_same(self, there):
        assert there.ask(CommandQuestion.observe("true", stdin=b"x" * 1_000_000)).status == 0

    def test_two_megabytes_come_whole_on_both_streams(self, there):
        program = "import sys\nfor n in range(20): sys.stdout.write('o' * 100000); sys.stderr.write('e' * 100000)"
        answer = there.ask(python(program))
        assert (answer.stdout, answer.stderr) == ("o" * 2_000_000, "e" * 2_000_000)

    def test_bytes_that_are_not_utf8_become_escapes(self, there):
        answer = there.ask(CommandQuestion.observe("printf", r"\377\303\251"))
        assert answer.stdout == "\\xff\u00e9"

    def test_the_locale_is_fixed(self, there, monkeypatch):
        monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
        assert there.ask(shell('echo "$LANG $LC_ALL"')).stdout == "C.UTF-8 C.UTF-8\n"

    @pytest.mark.parametrize("status", [1, 126, 127, 254, 255])
    def test_every_exit_status_is_the_commands_own(self, there, status):
        assert there.ask(shell(f"exit {status}")).status == status

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGABRT])
    def test_death_by_signal_is_128_and_its_number(self, there, number):
        assert there.ask(shell(f"ulimit -c 0; kill -{int(number)} $$")).status == 128 + number

    def test_a_missing_program_and_one_that_cannot_be_run_are_answers(self, there, tmp_path):
        (tmp_path / "data").write_text("no program")
        missing = there.ask(CommandQuestion.observe("no-such-program-here", "x"))
        assert (missing.status, missing.stdout) == (127, "")
        assert "no-such-program-here: not found" in missing.stderr
        assert there.ask(CommandQuestion.observe(str(tmp_path / "data"))).status == 126

    def test_what_start_up_files_print_is_no_answer(self, sshd, lane_with):
        sshd.stop()
        sshd.start('ForceCommand echo welcome; echo motd >&2; eval "$SSH_ORIGINAL_COMMAND"')
        heard: list[str] = []
        answer = lane_with(*sshd.options).ask(shell("echo out; echo err >&2"), lambda line, at: heard.append(line))
        assert (answer.stdout, answer.stderr, heard) == ("out\n", "err\n", ["out"])

    @pytest.mark.parametrize("argv", [(), ("echo", "a\0b"), ("-x",), ("echo", "x" * 200_000)])
    def test_a_command_that_cannot_be_meant_is_a_usage_mistake(self, there, sshd, argv):
        before = sshd.relay.accepted
        with pytest.raises(UsageMistake):
            there.ask(CommandQuestion.observe(*argv))
        assert sshd.relay.accepted == before

    @pytest.mark.parametrize("address", ["", "-oProxyCommand=touch x", "a b", "host\n", "-"])
    def test_an_address_that_is_no_host_is_a_usage_mistake(self, clock, address):
        with pytest.raises(UsageMistake, match=r"user@host"):
            SshCommands(address, clock)

    def test_the_agent_travels_and_says_there_what_it_says_here(self, there, clock):
        near, far = (Host(lane, clock, python=sys.executable).agent("pci") for lane in (LocalCommands(clock), there))
        assert far == near
        assert far

    def test_a_hundred_commands_are_one_connection(self, there, sshd):
        before = sshd.relay.accepted
        assert [there.ask(CommandQuestion.observe("echo", str(n))).stdout for n in range(100)] == [f"{n}\n" for n in range(100)]
        assert sshd.relay.accepted == before + 1


class TestLines:
    def test_lines_come_while_the_command_runs_with_the_clocks_time(self, there):
        lines: list[tuple[str, float]] = []
        answer = there.ask(shell("for n in 0 1 2; do echo line $n; sleep 0.3; done"), lambda line, at: lines.append((line, at)))
        assert [line for line, _ in lines] == ["line 0", "line 1", "line 2"]
        assert lines[1][1] - lines[0][1] > 0.1
        assert lines[2][1] + 0.1 < answer.at

    def test_a_last_line_without_a_newline_comes_without_the_mark(self, there):
        lines: list[str] = []
        there.ask(shell("printf 'a\n\nb\x1e'"), lambda line, at: lines.append(line))
        assert lines == ["a", "", "b\x1e"]

    def test_a_listener_that_fails_ends_the_command_there(self, there):
        pids: list[int] = []

        def fail(line: str, at: float) -> None:
            if line == "started":
                raise RuntimeError("listener")
            pids.append(int(line))

        with pytest.raises(RuntimeError, match="listener"):
            there.ask(shell(GRANDCHILD), fail)
        assert soon(lambda: not is_alive(pids[0]))


class TestTrust:
    def test_an_unknown_host_key_is_not_trusted_and_nothing_is_sent(self, sshd, there):
        sshd.know(None)
        with pytest.raises(Untrusted, match=r"not known: log in once by hand \(ssh bench\).*nothing was run"):
            there.ask(CommandQuestion.observe("true"))
        assert (sshd.folder / "known_hosts").read_text() == ""

    def test_a_changed_host_key_is_not_trusted_and_the_old_one_is_named(self, sshd, there):
        there.ask(CommandQuestion.observe("true"))
        there.close()
        sshd.stop()
        sshd.start(host_key="other_host_key")
        with pytest.raises(Untrusted, match=r"not the known one.*known_hosts:1.*ssh-keygen -R") as caught:
            there.ask(CommandQuestion.observe("true"))
        assert "\n" not in str(caught.value)

    def test_trust_that_was_given_meanwhile_counts(self, sshd, there):
        sshd.know("other_host_key")
        with pytest.raises(Untrusted):
            there.ask(CommandQuestion.observe("true"))
        sshd.know("host_key")
        assert there.ask(CommandQuestion.observe("true")).status == 0

    def test_a_wrong_key_is_one_attempt_and_no_second_one(self, sshd, lane_with):
        lane = lane_with(*sshd.changed(f"{sshd.folder}/key", f"{sshd.folder}/other_key"))
        before = sshd.relay.accepted
        with pytest.raises(AuthRefused, match=r"Permission denied \(publickey\).*one attempt was made") as first:
            lane.ask(CommandQuestion.observe("true"))
        for _ in range(2):
            with pytest.raises(AuthRefused) as again:
                lane.ask(CommandQuestion.observe("true"))
            assert str(again.value) == str(first.value)
        assert sshd.relay.accepted == before + 1

    def test_nothing_is_ever_asked_of_a_person(self, sshd, lane_with, tmp_path, monkeypatch):
        asked = tmp_path / "asked"
        (tmp_path / "askpass").write_text(f"#!/bin/sh\necho $@ >> {asked}\necho yes\n")
        (tmp_path / "askpass").chmod(0o755)
        monkeypatch.setenv("SSH_ASKPASS", str(tmp_path / "askpass"))
        monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
        sshd.know(None)
        with pytest.raises(Untrusted):
            lane_with(*sshd.options).ask(CommandQuestion.observe("true"))
        assert not asked.exists()

    def test_settings_of_the_user_that_would_change_what_runs_have_no_say(self, sshd, lane_with):
        own = f"RequestTTY force\n  RemoteCommand false\n  LogLevel QUIET\n  ControlMaster auto\n  LocalForward {free_port()} x:1\n"
        lane = lane_with(*sshd.changed("IdentitiesOnly yes", f"IdentitiesOnly yes\n  {own}"))
        assert lane.ask(shell("tty; echo ok")).stdout == "not a tty\nok\n"

    def test_an_account_that_runs_no_shell_commands_is_told_with_its_words(self, sshd, lane_with):
        sshd.stop()
        sshd.start("ForceCommand echo This account is closed; exit 1")
        with pytest.raises(Unreachable, match=r"ran no shell command \(exit status 1: This account is closed\)"):
            lane_with(*sshd.options).ask(CommandQuestion.observe("true"))

    def test_a_configuration_that_ssh_cannot_read_is_a_usage_mistake(self, sshd, lane_with):
        lane = lane_with(*sshd.changed("IdentitiesOnly yes", "IdentitysOnly yes"))
        with pytest.raises(UsageMistake, match="cannot read its configuration"):
            lane.ask(CommandQuestion.observe("true"))

    def test_without_the_program_ssh_the_package_is_named(self, there, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(BenchError, match="openssh-client"):
            there.ask(CommandQuestion.observe("true"))


class TestReach:
    def test_a_refused_connection_is_unreachable(self, lane_with, sshd):
        lane = lane_with("-p", str(free_port()), *sshd.options)
        with pytest.raises(Unreachable, match=r"Connection refused; nothing was run"):
            lane.ask(CommandQuestion.observe("true"))

    def test_an_unknown_name_is_unreachable(self, lane_with):
        with pytest.raises(Unreachable, match=r"Could not resolve hostname no-such-host\.invalid"):
            lane_with("-F", "none", address="root@no-such-host.invalid").ask(CommandQuestion.observe("true"))

    def test_a_port_that_never_speaks_is_unreachable_in_time(self, lane_with, sshd):
        with socket.create_server(("127.0.0.1", 0)) as door:
            lane = lane_with("-p", str(door.getsockname()[1]), *sshd.options)
            began = time.monotonic()
            with pytest.raises(Unreachable, match="nothing was run"):
                lane.ask(CommandQuestion.observe("true", timeout=0.7))
        assert 0.6 < time.monotonic() - began < 5

    def test_a_server_killed_in_the_middle_says_that_the_command_had_begun(self, there, sshd):
        pids: list[int] = []

        def strike(line: str, at: float) -> None:
            pids.append(int(line))
            sshd.stop()

        with pytest.raises(Unreachable, match=r"sleeper: the connection to bench was lost.*it had begun, and whether it finished"):
            there.ask(shell("echo $$; sleep 60", name="sleeper", timeout=30), strike)
        os.kill(pids[0], signal.SIGKILL)

    def test_a_connection_cut_in_the_middle_is_no_answer_however_much_had_come(self, there, sshd):
        with pytest.raises(Unreachable, match="it had begun"):
            there.ask(shell("echo first; sleep 1; echo second", timeout=30), lambda line, at: sshd.relay.cut())

    def test_after_a_loss_the_next_command_connects_anew_by_itself(self, there, sshd):
        with pytest.raises(Unreachable):
            there.ask(shell("echo; sleep 1", timeout=30), lambda line, at: sshd.relay.cut())
        before = sshd.relay.accepted
        assert there.ask(CommandQuestion.observe("echo", "back")).stdout == "back\n"
        assert sshd.relay.accepted == before + 1

    def test_a_restarted_server_is_found_again(self, there, sshd):
        there.ask(CommandQuestion.observe("true"))
        sshd.stop()
        with pytest.raises(Unreachable):
            there.ask(CommandQuestion.observe("true"))
        with pytest.raises(Unreachable, match="nothing was run"):
            there.ask(CommandQuestion.observe("true"))
        sshd.start()
        assert there.ask(CommandQuestion.observe("echo", "up")).stdout == "up\n"

    def test_a_master_that_was_killed_is_replaced(self, there, private_temp):
        there.ask(CommandQuestion.observe("true"))
        (master,) = [line for line in processes(str(private_temp)) if "ControlMaster=yes" in line]
        os.kill(int(master.split()[0]), signal.SIGKILL)
        assert soon(lambda: not is_alive(int(master.split()[0])))
        assert list(private_temp.glob("*/socket"))
        assert there.ask(CommandQuestion.observe("echo", "again")).stdout == "again\n"

    def test_a_master_that_ends_just_before_a_command_did_not_get_it(self, there, sshd, monkeypatch):
        there.ask(CommandQuestion.observe("true"))
        there.close()
        before = sshd.relay.accepted
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "is_open", property(lambda self: self._folder.is_dir()))
            there._connection._folder = Path(tempfile.mkdtemp())
            with pytest.raises(Unreachable, match=r"the master had ended.*it was not run"):
                there.ask(CommandQuestion.observe("true"))
        assert sshd.relay.accepted == before
        assert there.ask(CommandQuestion.observe("true")).status == 0

    def test_a_host_that_falls_silent_is_a_timeout_and_the_connection_is_given_up(self, there, sshd):
        there.ask(CommandQuestion.observe("true"))
        sshd.relay.silent.set()
        with pytest.raises(Timeout) as caught:
            there.ask(CommandQuestion.observe("true", timeout=0.5))
        assert caught.value.last == ""
        sshd.relay.silent.clear()
        before = sshd.relay.accepted
        assert there.ask(CommandQuestion.observe("true")).status == 0
        assert sshd.relay.accepted == before + 1

    def test_a_server_that_opens_no_session_ran_nothing(self, sshd, lane_with):
        sshd.stop()
        sshd.start("MaxSessions 0")
        with pytest.raises(Unreachable, match=r"no session on bench.*session request failed.*it was not run"):
            lane_with(*sshd.options).ask(CommandQuestion.observe("true"))


class TestEndings:
    def test_a_timeout_tells_the_last_line_and_ends_the_command_there(self, there, sshd):
        there.ask(CommandQuestion.observe("true"))
        before = sshd.relay.accepted
        pids: list[str] = []
        with pytest.raises(Timeout) as caught:
            there.ask(shell(GRANDCHILD, name="agent p2p", timeout=1.5), lambda line, at: pids.append(line))
        assert (caught.value.what, caught.value.seconds, caught.value.last) == ("agent p2p", 1.5, "started")
        assert soon(lambda: not is_alive(int(pids[0])))
        assert there.ask(CommandQuestion.observe("true")).status == 0
        assert sshd.relay.accepted == before

    def test_a_timeout_ends_what_an_exited_command_left_behind(self, there):
        there.ask(CommandQuestion.observe("true"))
        pids: list[str] = []
        with pytest.raises(Timeout):
            there.ask(shell("sleep 60 & echo $!", timeout=1.5), lambda line, at: pids.append(line))
        assert soon(lambda: not is_alive(int(pids[0])))

    def test_without_output_a_timeout_tells_the_last_error_line_and_no_mark(self, there):
        there.ask(CommandQuestion.observe("true"))
        with pytest.raises(Timeout) as caught:
            there.ask(shell("echo one >&2; printf two >&2; sleep 60", timeout=1.5))
        assert caught.value.last == "two"

    def test_closing_twice_is_harmless_and_leaves_nothing(self, there, private_temp):
        there.ask(CommandQuestion.observe("true"))
        assert list(private_temp.glob(f"{PREFIX}*"))
        there.close()
        there.close()
        assert list(private_temp.iterdir()) == []
        assert processes(str(private_temp)) == []

    def test_a_closed_lane_can_be_asked_again(self, there):
        there.ask(CommandQuestion.observe("true"))
        there.close()
        assert there.ask(CommandQuestion.observe("echo", "x")).stdout == "x\n"

    def test_no_file_is_left_open(self, there):
        there.ask(CommandQuestion.observe("true"))
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(2):
            there.ask(CommandQuestion.observe("cat", stdin=b"x"))
            with pytest.raises(Timeout):
                there.ask(CommandQuestion.observe("sleep", "60", stdin=b"x" * 1_000_000, timeout=0.5))
        assert len(list(Path("/proc/self/fd").iterdir())) == before


ASKING = """
import sys
from harness.clock import WallClock
from harness.live.ssh import SshCommands
from harness.ports import CommandQuestion
lane = SshCommands("bench", WallClock(), options=sys.argv[1:])
try:
    lane.ask(CommandQuestion.observe("sh", "-c", {script!r}), lambda line, at: print(line, flush=True))
finally:
    lane.close()
"""


@pytest.fixture
def asking(sshd) -> Iterator[subprocess.Popen[str]]:
    """A harness of its own that waits for a long command, and the numbers of that command's processes."""
    line = [sys.executable, "-c", ASKING.format(script=GRANDCHILD), *sshd.options]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


class TestInterrupts:
    def test_ctrl_c_leaves_nothing_here_or_there(self, asking, private_temp):
        pid = int(asking.stdout.readline())
        assert asking.stdout.readline() == "started\n"
        asking.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in asking.communicate(timeout=20)[1]
        assert soon(lambda: not is_alive(pid))
        assert processes(str(private_temp)) == []
        assert list(private_temp.iterdir()) == []

    def test_what_a_killed_harness_left_is_cleared_by_the_next(self, asking, private_temp, there):
        pid = int(asking.stdout.readline())
        assert asking.stdout.readline() == "started\n"
        (folder,) = private_temp.glob(f"{PREFIX}*")
        asking.kill()
        asking.communicate()
        assert processes(str(folder))
        there.ask(CommandQuestion.observe("true"))
        assert not folder.exists()
        assert soon(lambda: not processes(str(folder)))
        there.ask(CommandQuestion.observe("kill", "-KILL", str(pid)))
