from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import Timeout, UsageMistake
from harness.live.local import LocalCommands
from harness.ports import CommandQuestion

GRANDCHILD = "sleep 60 & echo $! ; echo started; wait"


@pytest.fixture
def here(clock) -> Iterator[LocalCommands]:
    lane = LocalCommands(clock)
    yield lane
    lane.close()


def python(program: str, *arguments: str, **other) -> CommandQuestion:
    return CommandQuestion.observe(sys.executable, "-c", program, *arguments, **other)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def soon(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


class TestAnswers:
    def test_output_errors_and_status_are_told_apart(self, here):
        answer = here.ask(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
        assert (answer.stdout, answer.stderr, answer.status) == ("out\n", "err\n", 3)

    def test_at_and_took_are_the_clocks(self, here, clock):
        before = clock.now()
        answer = here.ask(CommandQuestion.observe("sleep", "0.2"))
        assert 0.2 <= answer.took < 2
        assert before + answer.took <= answer.at <= clock.now()

    def test_there_is_no_shell(self, here):
        assert here.ask(CommandQuestion.observe("echo", "$HOME; *", "a  b")).stdout == "$HOME; * a  b\n"

    def test_stdin_reaches_the_command_and_ends(self, here):
        data = bytes(range(256)) * 4000
        answer = here.ask(python("import sys; d = sys.stdin.buffer.read(); print(len(d), d[-3:])", stdin=data))
        assert answer.stdout == f"{len(data)} {data[-3:]}\n"

    def test_without_stdin_a_reader_sees_the_end_at_once(self, here):
        assert here.ask(CommandQuestion.observe("cat", timeout=5)).stdout == ""

    def test_a_command_that_ignores_its_stdin_answers_all_the_same(self, here):
        assert here.ask(CommandQuestion.observe("true", stdin=b"x" * 1_000_000)).status == 0

    def test_large_outputs_on_both_pipes_with_large_stdin_do_not_deadlock(self, here):
        program = (
            "import sys\n"
            "for _ in range(40): sys.stderr.write('e' * 100000); sys.stdout.write('o' * 100000)\n"
            "sys.stdout.write(str(len(sys.stdin.read())))"
        )
        answer = here.ask(python(program, stdin=b"i" * 3_000_000, timeout=20))
        assert (len(answer.stderr), answer.stdout[-7:], len(answer.stdout)) == (4_000_000, "3000000", 4_000_007)

    def test_a_command_that_reads_a_little_writes_a_lot_and_reads_on_does_not_deadlock(self, here):
        program = "import os\nos.read(0, 8192)\nos.write(1, b'o' * 1_000_000)\nwhile os.read(0, 65536): pass"
        answer = here.ask(python(program, stdin=b"i" * 1_000_000, timeout=20))
        assert (answer.status, len(answer.stdout)) == (0, 1_000_000)

    def test_bytes_that_are_not_utf8_become_escapes(self, here):
        answer = here.ask(python("import sys; sys.stdout.buffer.write(b'\\xff\\xc3\\xa9'); sys.stderr.buffer.write(b'\\xfe')"))
        assert (answer.stdout, answer.stderr) == ("\\xff\u00e9", "\\xfe")

    def test_the_locale_is_fixed_and_the_rest_is_inherited(self, here, monkeypatch):
        monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
        monkeypatch.setenv("LANG", "de_DE.UTF-8")
        monkeypatch.setenv("SOME_SETTING", "kept")
        answer = here.ask(python("import os; print(os.environ['LANG'], os.environ['LC_ALL'], os.environ['SOME_SETTING'])"))
        assert answer.stdout == "C.UTF-8 C.UTF-8 kept\n"

    def test_a_missing_program_is_answered_with_127(self, here):
        answer = here.ask(CommandQuestion.observe("no-such-program-here", "x"))
        assert (answer.status, answer.stdout, answer.stderr) == (127, "", "no-such-program-here: command not found\n")

    def test_a_program_that_cannot_be_run_is_answered_with_126(self, here, tmp_path):
        (tmp_path / "data").write_text("no program")
        answer = here.ask(CommandQuestion.observe(str(tmp_path / "data")))
        assert (answer.status, answer.stderr) == (126, f"{tmp_path / 'data'}: Permission denied\n")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
    def test_death_by_signal_is_128_and_its_number(self, here, number):
        answer = here.ask(
            python(f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {int(number)})")
        )
        assert answer.status == 128 + number

    @pytest.mark.parametrize("argv", [(), ("echo", "a\0b")])
    def test_a_command_that_cannot_be_meant_is_a_usage_mistake(self, here, argv):
        with pytest.raises(UsageMistake):
            here.ask(CommandQuestion.observe(*argv))


class TestLines:
    def test_lines_come_while_the_command_runs_with_the_clocks_time(self, here, clock):
        lines: list[tuple[str, float]] = []
        program = "import time\nfor n in range(3): print('line', n, flush=True); time.sleep(0.15)"
        answer = here.ask(python(program), lambda line, at: lines.append((line, at)))
        assert [line for line, _ in lines] == ["line 0", "line 1", "line 2"]
        assert lines[1][1] - lines[0][1] > 0.1
        assert lines[2][1] - lines[1][1] > 0.1
        assert lines[2][1] < answer.at

    def test_a_line_in_pieces_comes_once_and_whole(self, here):
        lines: list[str] = []
        program = (
            "import sys, time\n"
            "for piece in (b'a', b'\\xc3', b'\\xa9\\n\\nb\\r\\n', b'c'):\n"
            "    sys.stdout.buffer.write(piece); sys.stdout.buffer.flush(); time.sleep(0.03)"
        )
        answer = here.ask(python(program), lambda line, at: lines.append(line))
        assert lines == ["a\u00e9", "", "b\r", "c"]
        assert "\n".join(lines) == answer.stdout

    def test_errors_are_not_lines(self, here):
        lines: list[str] = []
        here.ask(python("import sys; print('x', file=sys.stderr)"), lambda line, at: lines.append(line))
        assert lines == []

    def test_a_listener_that_fails_ends_the_command(self, here):
        pids: list[int] = []

        def fail(line: str, at: float) -> None:
            if line == "started":
                raise RuntimeError("listener")
            pids.append(int(line))

        with pytest.raises(RuntimeError, match="listener"):
            here.ask(CommandQuestion.observe("sh", "-c", GRANDCHILD), fail)
        assert soon(lambda: not is_alive(pids[0]))


class TestEndings:
    def test_a_timeout_kills_the_whole_group_and_tells_the_last_line(self, here):
        pids: list[str] = []
        began = time.monotonic()
        with pytest.raises(Timeout) as caught:
            here.ask(
                CommandQuestion.observe("sh", "-c", GRANDCHILD, name="agent p2p", timeout=0.3), lambda line, at: pids.append(line)
            )
        assert time.monotonic() - began < 3
        assert (caught.value.what, caught.value.seconds, caught.value.last) == ("agent p2p", 0.3, "started")
        assert soon(lambda: not is_alive(int(pids[0])))

    def test_a_timeout_kills_what_an_exited_parent_left_behind(self, here):
        pids: list[str] = []
        with pytest.raises(Timeout):
            here.ask(CommandQuestion.observe("sh", "-c", "sleep 60 & echo $!", timeout=0.3), lambda line, at: pids.append(line))
        assert soon(lambda: not is_alive(int(pids[0])))

    def test_a_command_that_closed_its_output_still_has_a_timeout(self, here):
        with pytest.raises(Timeout):
            here.ask(CommandQuestion.observe("sh", "-c", "exec >&- 2>&-; sleep 60", timeout=0.3))

    def test_without_output_a_timeout_tells_the_last_error_line(self, here):
        with pytest.raises(Timeout) as caught:
            here.ask(CommandQuestion.observe("sh", "-c", "echo one >&2; printf two >&2; sleep 60", timeout=0.3))
        assert caught.value.last == "two"

    def test_ctrl_c_kills_the_whole_group(self, here):
        pids: list[int] = []

        def interrupt(line: str, at: float) -> None:
            if line == "started":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                pids.append(int(line))

        with pytest.raises(KeyboardInterrupt):
            here.ask(CommandQuestion.observe("sh", "-c", GRANDCHILD, timeout=20), interrupt)
        assert soon(lambda: not is_alive(pids[0]))

    def test_close_kills_what_still_runs(self, here):
        pids: list[int] = []

        def told(line: str, at: float) -> None:
            if line == "started":
                threading.Thread(target=here.close).start()
            else:
                pids.append(int(line))

        answer = here.ask(CommandQuestion.observe("sh", "-c", GRANDCHILD, timeout=20), told)
        assert answer.status == 128 + signal.SIGKILL
        assert soon(lambda: not is_alive(pids[0]))

    def test_closing_twice_is_harmless(self, here):
        here.ask(CommandQuestion.observe("true"))
        here.close()
        here.close()

    def test_no_file_is_left_open(self, here):
        here.ask(CommandQuestion.observe("true"))
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            here.ask(CommandQuestion.observe("cat", stdin=b"x"))
            with pytest.raises(Timeout):
                here.ask(CommandQuestion.observe("sleep", "60", stdin=b"x" * 1_000_000, timeout=0.05))
        assert len(list(Path("/proc/self/fd").iterdir())) == before
