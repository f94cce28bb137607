from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.clock import Deadline, WallClock
from harness.errors import AuthRefused, BenchError, OwnershipError, Timeout, Unreachable, UsageMistake
from harness.live.shell import ConsoleShell
from harness.live.shell_login import Place, is_lost, place_of
from harness.live.terminal import CommandStream
from harness.ports import Chunk, CommandQuestion
from harness.secret import SecretReference

pytestmark = pytest.mark.slow

SHELLS = {"sh": "sh -i", "bash": "bash --norc -i", "busybox": "busybox sh -i"}
PASSWORD = "open sesame 1"
GETTY = r"""
import fcntl, os, subprocess, sys, termios, time

def sane(echo):
    mode = termios.tcgetattr(0)
    mode[0] |= termios.ICRNL
    mode[1] |= termios.OPOST | termios.ONLCR
    mode[3] |= termios.ICANON | termios.ISIG | termios.ECHO
    if not echo:
        mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSADRAIN, mode)

def ask(prompt, echo=True):
    sane(echo)
    os.write(1, prompt)
    answer = os.read(0, 4096)
    os.write(1, b"" if echo else b"\n")
    return answer.decode().strip()

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
log = open(sys.argv[1], "a", buffering=1)
if len(sys.argv) > 4:
    os.write(1, sys.argv[4].encode())
while True:
    user = ""
    while not user:
        user = ask(b"\n\x1b[1mDebian GNU/Linux 12\x1b[0m r640 ttyS0\n\nr640 login: ")
    if ask(b"Password: ", echo=False) != sys.argv[2]:
        log.write("refused %s\n" % user)
        time.sleep(0.1)
        os.write(1, b"\nLogin incorrect\n")
        continue
    log.write("welcomed %s\n" % user)
    os.write(1, b"Last login: Mon Jan  5 10:00:00 on ttyS0\n")
    subprocess.run(sys.argv[3].split(), env=dict(os.environ, PS1="[root@r640 ~]# "))
    log.write("left %s\n" % user)
"""
KERNEL = b"[ 1234.567890] pcieport 0000:17:00.0: AER: Corrected error message received from 0000:18:00.0\r\n"


@pytest.fixture(params=sorted(SHELLS))
def command(request) -> str:
    if shutil.which(SHELLS[request.param].split()[0]) is None:
        pytest.skip(f"no {request.param} here; apt-get install busybox-static")
    return SHELLS[request.param]


class Hostile:
    """A stream that does to what passes what consoles do. Everything is off until it is switched on."""

    def __init__(self, stream, seed: int = 0) -> None:
        self.stream, self.random = stream, random.Random(seed)
        self.drop_read = self.drop_write = self.flip = self.kernel = self.ansi = self.chatter = 0.0
        self.single = self.crcr = False
        self.pieces: deque[Chunk] = deque()
        self.written: list[bytes] = []

    def read(self, deadline: Deadline) -> Chunk:
        if not self.pieces:
            chunk = self.stream.read(deadline)
            if not chunk.data:
                return chunk
            data = self.spoil(chunk.data)
            size = 1 if self.single else len(data) or 1
            self.pieces.extend(Chunk(data[start : start + size], chunk.at) for start in range(0, len(data), size))
        return self.pieces.popleft() if self.pieces else self.read(deadline)

    def spoil(self, data: bytes) -> bytes:
        if not (self.drop_read or self.flip or self.kernel or self.ansi or self.chatter or self.crcr):
            return data
        out = bytearray()
        for byte in data:
            chance = self.random.random
            if chance() < self.kernel:
                out += KERNEL
            if chance() < self.ansi:
                out += self.random.choice([b"\x1b[0m", b"\x1b[?2004h", b"\x1b[6n", b"\x1b]0;title\x07", b"\x1b(B"])
            if chance() < self.chatter:
                out += b"\r\nBroadcast message from root: QUJDREVG login\r\n"
            if chance() < self.drop_read:
                continue
            out.append(self.random.choice(b"ABCabc012") if chance() < self.flip else byte)
            if self.crcr and byte == 13:
                out.append(13)
        return bytes(out)

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.stream.write(bytes(byte for byte in data if not self.drop_write or self.random.random() >= self.drop_write))

    def close(self) -> None:
        self.stream.close()


class Bed:
    """A shell on a console, with what is between them."""

    def __init__(self, command: str, clock, **other) -> None:
        self.hostile = Hostile(CommandStream(command, clock))
        self.shell = ConsoleShell(self.hostile, clock, **{"patience": 1.0, **other})

    def ask(self, *argv: str, on_line=None, **other):
        return self.shell.ask(CommandQuestion.observe(*argv, **other), on_line)

    def close(self) -> None:
        self.shell.close()
        with suppress(BenchError):
            self.hostile.stream.write(b"exit\n")
            self.hostile.stream.read(Deadline.after(WallClock(), 0.2))
        self.hostile.close()


@pytest.fixture
def make(clock):
    made = []

    def bed(command: str = SHELLS["sh"], **other) -> Bed:
        made.append(Bed(command, clock, **other))
        return made[-1]

    yield bed
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def common():
    """One console for many tests."""
    bed = Bed(SHELLS["sh"], WallClock(), patience=0.4)
    yield bed
    bed.close()


@pytest.fixture
def bed(common) -> Bed:
    """The common console, with nothing in between yet."""
    fresh = vars(Hostile(None))
    vars(common.hostile).update(fresh | {"stream": common.hostile.stream})
    return common


@pytest.fixture
def getty(tmp_path, monkeypatch):
    """The command of a console with a login prompt, and what its log says."""
    program, log = tmp_path / "getty.py", tmp_path / "log"
    program.write_text(GETTY)
    log.touch()
    monkeypatch.setenv("HOST_PASSWORD", PASSWORD)

    def line(*more: str) -> str:
        words = [sys.executable, str(program), str(log), f"'{PASSWORD}'", "'bash --norc -i'", *more]
        return " ".join(words)

    return line, log


class TestAnswers:
    def test_output_errors_and_status_are_told_apart_in_every_shell(self, make, command):
        answer = make(command).ask("sh", "-c", "printf out; echo err >&2; exit 3")
        assert (answer.stdout, answer.stderr, answer.status) == ("out", "err\n", 3)

    def test_a_large_answer_is_exact_in_every_shell(self, make, command):
        answer = make(command).ask("seq", "100000", name="numbers")
        assert answer.stdout == "".join(f"{number}\n" for number in range(1, 100001))

    def test_any_bytes_reach_a_command_s_input_in_every_shell(self, make, command, tmp_path):
        data = os.urandom(20_000) + bytes(range(256))
        answer = make(command).ask("sh", "-c", f"cat >{tmp_path}/got", stdin=data)
        assert answer.status == 0
        assert (tmp_path / "got").read_bytes() == data

    def test_a_large_answer_that_cannot_be_packed_is_exact(self, bed, tmp_path):
        (tmp_path / "noise").write_bytes(os.urandom(600_000))
        answer = bed.ask("cat", str(tmp_path / "noise"))
        assert answer.stdout == (tmp_path / "noise").read_bytes().decode("utf-8", "backslashreplace")

    def test_invalid_utf8_is_escaped_and_prompts_in_an_answer_are_text(self, bed):
        text = r"\377 [root@r640 ~]# \nr640 login: \nPassword: \n@0@1<\n\033[2J$ "
        assert bed.ask("printf", text).stdout == "\\xff [root@r640 ~]# \nr640 login: \nPassword: \n@0@1<\n\x1b[2J$ "

    def test_an_empty_answer_and_one_without_a_newline_are_exact(self, bed):
        assert [bed.ask("true").stdout, bed.ask("printf", "x").stdout, bed.ask("printf", "\\n\\n").stdout] == ["", "x", "\n\n"]

    def test_arguments_arrive_as_they_are(self, bed):
        words = ["a b", "$HOME", "`id`", "'", '"', "\\", "*", "ü", "", "!x", "a\nb"]
        assert bed.ask("printf", "%s|", *words).stdout == "".join(f"{word}|" for word in words)

    def test_a_missing_program_is_an_answer(self, bed):
        answer = bed.ask("no-such-program")
        assert (answer.status, "not found" in answer.stderr) == (127, True)

    def test_lines_are_told_while_the_command_runs(self, bed, clock):
        heard = []
        bed.ask(
            "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.6; done; printf end", on_line=lambda *line: heard.append(line)
        )
        assert [line for line, _ in heard] == ["line 1", "line 2", "line 3", "end"]
        assert heard[1][1] - heard[0][1] > 0.2
        assert heard[2][1] - heard[1][1] > 0.2

    def test_a_command_without_words_is_refused(self, bed):
        with pytest.raises(UsageMistake):
            bed.ask("echo", "a\0b")
        assert bed.hostile.written == []

    def test_nothing_is_left_behind_there(self, make):
        bed = make()
        (folder,) = {Path(found) for found in re.findall(r"/\S+/bh\.\w+(?=/)", bed.ask("no-such-program").stderr)}
        assert folder.is_dir()
        bed.close()
        assert not folder.exists()


class TestTime:
    def test_a_command_out_of_time_is_killed_with_all_it_started_and_the_last_line_is_told(self, bed, tmp_path):
        with pytest.raises(Timeout) as caught:
            bed.ask("sh", "-c", f"echo one; echo last; sleep 60 & echo $! >{tmp_path}/pid; wait", timeout=0.5)
        assert caught.value.last == "last"
        pid = int((tmp_path / "pid").read_text())
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1]
        assert bed.ask("echo", "again").stdout == "again\n"

    def test_a_command_that_ignores_signals_is_killed(self, bed):
        with pytest.raises(Timeout):
            bed.ask("sh", "-c", "trap '' INT TERM HUP; while :; do sleep 0.1; done", timeout=0.4)
        assert bed.ask("echo", "again").stdout == "again\n"

    def test_a_console_at_115200_baud_is_waited_for(self, bed, clock, monkeypatch):
        bed.ask("true")
        monkeypatch.setattr(bed.hostile, "read", slowly(bed.hostile.read, clock))
        assert bed.ask("seq", "8000", timeout=5).stdout == "".join(f"{number}\n" for number in range(1, 8001))


def slowly(read, clock):
    """Let what comes through at 11,520 bytes a second."""

    def paced(deadline):
        chunk = read(deadline)
        clock.sleep(len(chunk.data) / 11520)
        return chunk

    return paced


class TestLogin:
    def reference(self) -> SecretReference:
        return SecretReference(env="HOST_PASSWORD", where="bench.toml", key="host.password")

    def test_it_logs_in_once_asks_and_logs_out(self, make, getty):
        line, log = getty
        bed = make(line(), user="root", password=self.reference())
        assert [bed.ask("echo", str(number)).stdout for number in range(3)] == ["0\n", "1\n", "2\n"]
        bed.shell.close()
        assert log.read_text().split("\n")[:-1] == ["welcomed root", "left root"]
        assert bed.ask("echo", "again").stdout == "again\n"

    def test_a_wrong_password_is_one_attempt(self, make, getty, monkeypatch):
        line, log = getty
        monkeypatch.setenv("HOST_PASSWORD", "wrong-one-1")
        bed = make(line(), user="root", password=self.reference())
        for _ in range(3):
            with pytest.raises(AuthRefused, match=r"HOST_PASSWORD.*one attempt") as caught:
                bed.ask("true")
            assert "wrong-one-1" not in str(caught.value)
        assert log.read_text() == "refused root\n"

    def test_without_a_user_nothing_is_tried(self, make, getty):
        line, log = getty
        bed = make(line())
        with pytest.raises(AuthRefused, match=r"give host\.user"):
            bed.ask("true")
        assert log.read_text() == ""

    def test_without_a_password_none_is_tried(self, make, getty):
        line, log = getty
        bed = make(line(), user="root")
        with pytest.raises(AuthRefused, match="none was tried"):
            bed.ask("true")
        assert "welcomed" not in log.read_text()

    def test_a_kernel_line_after_the_prompt_hides_nothing(self, make, getty):
        bed = make(getty[0](), user="root", password=self.reference())
        bed.hostile.kernel = 0.02
        assert bed.ask("echo", "in").stdout == "in\n"

    def test_a_firmware_prompt_is_not_typed_at(self, make):
        bed = make("sh -c 'printf \"GNU GRUB\\r\\n\\r\\ngrub> \"; sleep 60'")
        with pytest.raises(Unreachable, match="boot loader"):
            bed.ask("true")
        assert bed.hostile.written == []

    def test_running_text_is_not_typed_at(self, make):
        bed = make("sh -c 'while :; do echo Booting something; sleep 0.1; done'")
        with pytest.raises(Timeout, match="Booting something"):
            bed.ask("true")
        assert bed.hostile.written == []

    def test_a_silent_console_is_a_timeout(self, make):
        with pytest.raises(Timeout, match="a prompt on the console"):
            make("sh -c 'stty -echo; sleep 60'").ask("true")

    def test_a_loop_that_a_killed_harness_left_there_is_ended(self, make, clock):
        first = make()
        assert first.ask("echo", "one").stdout == "one\n"
        second = ConsoleShell(first.hostile, clock, patience=1.0)
        assert second.ask(CommandQuestion.observe("echo", "two")).stdout == "two\n"
        second.close()

    def test_a_password_prompt_that_somebody_left_is_left_and_nothing_is_tried_on_it(self, make, getty, clock):
        line, log = getty
        bed = make(line(), user="root", password=self.reference())
        bed.hostile.stream.write(b"guest\r")
        clock.sleep(0.5)
        assert bed.ask("echo", "in").stdout == "in\n"
        assert "welcomed root" in log.read_text()


@pytest.mark.parametrize(
    ("seen", "place"),
    [
        (b"r640 login: ", Place.LOGIN),
        (b"\x1b[0mr640 login: [   12.3] usb 1-1: new device\r\n", Place.LOGIN),
        (b"Password: ", Place.PASSWORD),
        (b"Give root password for maintenance\r\n(or press Control-D to continue): ", Place.UNKNOWN),
        (b"[root@r640 ~]# ", Place.SHELL),
        (b"\x1b[?2004h\x1b[01;32muser@host\x1b[00m:\x1b[01;34m~\x1b[00m$ ", Place.SHELL),
        (b"grub> ", Place.FIRMWARE),
        (b"Shell> ", Place.FIRMWARE),
        (b"Loading initial ramdisk ...\r\n", Place.UNKNOWN),
        (b"", Place.UNKNOWN),
    ],
)
def test_where_a_console_is_is_told_by_its_last_line(seen, place):
    assert place_of(seen) is place


@pytest.mark.parametrize(
    ("seen", "lost"),
    [
        (b"[    0.000000] Linux version 6.1.0\r\n", True),
        (b"\x1b[2JEFI stub: Loaded initrd from LINUX_EFI_INITRD_MEDIA_GUID device path\r\n", True),
        (b"UEFI Interactive Shell v2.2\r\nShell> ", True),
        (b"grub> ", True),
        (b"r640 login: ", True),
        (b"[   77.1] usb 1-1: new device\r\n", False),
        (b"root@r640:~# ", False),
    ],
)
def test_a_session_is_over_where_the_machine_starts_anew_even_without_a_word_of_a_kernel(seen, lost):
    """Else what was meant for a shell would be typed into firmware."""
    assert is_lost(seen) is lost


class TestLoss:
    def test_a_host_that_dies_in_the_middle_is_unreachable(self, make):
        bed = make()

        def die(line, at):
            os.killpg(bed.hostile.stream._process.pid, signal.SIGKILL)

        (folder,) = set(re.findall(r"/\S+/bh\.\w+(?=/)", bed.ask("no-such-program").stderr))
        with pytest.raises(Unreachable, match="signal 9 ended it"):
            bed.ask("sh", "-c", "echo so far; sleep 5", on_line=die)
        shutil.rmtree(folder)  # a real one was in memory

    def test_a_host_that_restarts_in_the_middle_is_unreachable_and_the_next_question_logs_in_anew(self, make, getty, clock):
        line, log = getty
        bed = make(line(), user="root", password=SecretReference(env="HOST_PASSWORD"))

        def restart(*_):
            old, bed.hostile.stream = bed.hostile.stream, CommandStream(line("'[    0.0] Linux version 6.1.0-28\n'"), clock)
            old.close()
            bed.hostile.stream.read(Deadline(clock.now()))

        with pytest.raises(Unreachable, match=r"session on the console is over"):
            bed.ask("sh", "-c", "echo so far; sleep 5", on_line=restart)
        assert bed.ask("echo", "back").stdout == "back\n"
        restart()
        clock.sleep(0.5)
        assert bed.ask("echo", "back again").stdout == "back again\n"
        assert log.read_text().count("welcomed") == 3

    def test_silence_in_the_middle_is_unreachable_with_the_last_thing_seen(self, make):
        bed = make(patience=0.1)
        bed.ask("true")
        bed.hostile.drop_write = 1.0
        with pytest.raises(Unreachable, match="no whole answer"):
            bed.ask("true")
        bed.hostile.drop_write = 0.0
        assert bed.ask("echo", "back").stdout == "back\n"


class TestOwnership:
    def test_a_listener_hears_what_others_say_and_never_writes(self, bed, clock):
        listener = bed.shell.listener()
        bed.hostile.kernel = 0.01
        assert bed.ask("seq", "50").stdout.startswith("1\n2\n")
        heard = listener.read(Deadline.after(clock, 0.1)).data
        assert b"pcieport 0000:17:00.0" in heard
        with pytest.raises(OwnershipError, match="belongs to the shell"):
            listener.write(b"x")

    def test_a_listener_is_refused_while_a_question_is_asked(self, bed, clock):
        listener, refused = bed.shell.listener(), []

        def listen(line, at):
            with pytest.raises(OwnershipError, match="is used as a shell") as caught:
                listener.read(Deadline(clock.now()))
            refused.append(str(caught.value))
            with pytest.raises(OwnershipError, match="one question at a time"):
                bed.ask("true")

        bed.ask("echo", "x", on_line=listen)
        assert len(refused) == 1

    def test_closing_twice_is_harmless(self, bed):
        bed.ask("true")
        bed.shell.close()
        bed.shell.close()


class TestTorture:
    @pytest.mark.parametrize("evil", ["kernel", "ansi", "chatter", "single", "crcr", "flip", "drop_read", "drop_write"])
    def test_the_answer_is_exact(self, bed, evil, tmp_path):
        bed.ask("true")
        setattr(bed.hostile, evil, True if evil in ("single", "crcr") else 0.001)
        wanted = "".join(f"{number:06} # $ > login: \n" for number in range(400))
        answer = bed.ask("sh", "-c", f"cat; echo x >>{tmp_path}/times", stdin=wanted.encode())
        assert answer.stdout == wanted
        assert (tmp_path / "times").read_text() == "x\n"

    def test_a_kernel_that_never_stops_talking_damages_nothing(self, bed, clock):
        bed.ask("true")
        bed.hostile.kernel = 0.03  # a line of it in every thirty bytes of ours
        asked = clock.now()
        assert bed.ask("seq", "300").stdout == "".join(f"{number}\n" for number in range(1, 301))
        assert clock.now() - asked < 10
        assert bed.shell.listener().read(Deadline(clock.now())).data.count(KERNEL) > 20

    def test_lines_that_are_told_while_the_command_runs_are_exact_too(self, bed):
        bed.ask("true")
        bed.hostile.flip = 0.001
        wanted, told = [f"{number:06} of many" for number in range(400)], []
        script = "cat; sleep 1"
        bed.ask("sh", "-c", script, stdin="\n".join(wanted).encode(), on_line=lambda line, at: told.append((line, at)))
        assert [line for line, _ in told] == wanted
        assert told[-1][1] - told[0][1] > 0.2

    def test_under_everything_at_once_it_is_exact_from_the_first_byte(self, make):
        bed = make()
        bed.hostile.kernel, bed.hostile.ansi, bed.hostile.single, bed.hostile.crcr = 0.003, 0.003, True, True
        assert bed.ask("seq", "1000").stdout == "".join(f"{number}\n" for number in range(1, 1001))


RATES = st.sampled_from([0.0, 0.0, 0.0005, 0.002])


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(st.binary(max_size=1500), st.text("[]@<>0123:abc=\r\n #$", max_size=800).map(str.encode)),
    rates=st.fixed_dictionaries(dict.fromkeys(("kernel", "ansi", "chatter", "flip", "drop_read", "drop_write"), RATES)),
    split=st.fixed_dictionaries({"single": st.booleans(), "crcr": st.booleans()}),
    seed=st.integers(0, 2**32),
)
def test_an_answer_is_exact_or_an_error_and_a_command_never_runs_twice(common, tmp_path, data, rates, split, seed):
    times = tmp_path / "times"
    times.write_text("")
    common.hostile.random.seed(seed)
    vars(common.hostile).update(rates | split)
    try:
        answer = common.ask("sh", "-c", f"echo x >>{times}; cat; echo err >&2; exit 5", stdin=data, timeout=20)
    except BenchError:
        assert times.read_text() in ("", "x\n")
    else:
        assert answer.stdout == data.decode("utf-8", "backslashreplace")
        assert (answer.stderr, answer.status) == ("err\n", 5)
        assert times.read_text() == "x\n"
    finally:
        vars(common.hostile).update(dict.fromkeys(rates, 0.0) | dict.fromkeys(split, False))


def test_after_all_that_the_console_still_answers(common):
    assert common.ask("echo", "still here").stdout == "still here\n"
