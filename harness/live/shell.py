"""Commands on a serial console: exact output, error output and exit status over a line that promises none of them.

unknown ── Entrance ──> shell prompt ── loader ──> loop runs ── ask ──> loop runs
   ^                                                  │
   └── a login prompt, a kernel that begins, silence ─┘   Unreachable; the next question begins anew

ask     upload the command (and its input) as files, checked ─> run it once ─> look whether it has ended ─> read its files
        out of time: everything it started is killed ─> Timeout with the last line

The stream belongs to the shell. Who wants to hear what others say on it reads ``listener()``: what the shell did not need
and, between two questions, what comes.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable
from contextlib import suppress

from harness.clock import Clock, Deadline
from harness.errors import BringupError, OwnershipError, Timeout, Unreachable, UsageMistake
from harness.live.shell_frames import LOOP, Reply, loader, loop_lines, sha256
from harness.live.shell_login import PROMPT, Entrance, is_lost, last_line
from harness.live.shell_requests import Requests, words
from harness.ports import Chunk, CommandAnswer, CommandQuestion, OnLine, Streams
from harness.secret import SecretReference

PATIENCE = 4.0
"""Seconds of silence after which a request is made again."""

_ENTRIES = 3
_PINGS = 3
_LIVE_BYTES = 8192
"""What is read at most of a running command's output at one look."""

_TAIL_BYTES = 256
_SLOWEST_LOOK = 0.5


class ConsoleShell:
    """The command lane over a console.

    ``user`` and ``password`` are used where it is at a login prompt; ``prompt`` is a regular expression for the end of the line at
    which a shell waits (it sees 200 characters). ``patience`` is in seconds. A question's timeout is for the command; reading its
    output goes on as long as something whole comes.

    Raises AuthRefused, Unreachable (the host restarted or died, the console broke) and Timeout with the last thing seen.
    """

    def __init__(
        self,
        stream: Streams,
        clock: Clock,
        *,
        user: str = "",
        password: SecretReference | None = None,
        prompt: str = PROMPT,
        patience: float = PATIENCE,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._patience = patience
        self._entrance = Entrance(stream, clock, user=user, password=password, prompt=prompt)
        self._requests = Requests(stream, clock, "", patience)
        self._is_in = False
        self._asking = ""
        self._job = 0

    def ask(self, question: CommandQuestion, on_line: OnLine | None = None) -> CommandAnswer:
        if not question.argv or any("\0" in word for word in question.argv):
            raise UsageMistake(f"{question.key!r}: a command is a program and its arguments, without NUL characters")
        if self._asking:
            raise OwnershipError(f"the console is busy with {self._asking!r}; it takes one question at a time")
        started, self._asking = self._clock.now(), question.key
        try:
            self._come_in()
            status, output, errors = self._perform(question, on_line)
        except Unreachable:
            self._is_in = False
            self._entrance.note(self._requests.last)
            raise
        finally:
            self._asking = ""
        ended = self._clock.now()
        return CommandAnswer(status, _text(output), _text(errors), ended, ended - started)

    def close(self) -> None:
        """End our loop there, and log out if we logged in. The stream stays open. Closing twice is harmless; raises nothing."""
        with suppress(BringupError):
            if self._is_in:
                self._requests.say("x")
                self._entrance.listen(1.0)
            if self._entrance.has_logged_in:
                self._stream.write(b"exit\n")
                self._entrance.listen(1.0)
        self._is_in = self._entrance.has_logged_in = False

    def listener(self) -> Streams:
        """The console for somebody who only reads. It refuses with OwnershipError while a question is asked, and every write."""
        return _Listener(self._overhear, self._stream)

    # the way in

    def _come_in(self) -> None:
        """Have the loop running there."""
        self._catch_up()
        if self._is_in and not is_lost(self._entrance.seen):
            return
        self._is_in = False
        for attempt in range(_ENTRIES):
            self._entrance.enter()
            if self._load():
                self._is_in = True
                return
            if attempt < _ENTRIES - 1:
                self._stream.write(b"\n.\nx 0\n\x03\n")
        raise Unreachable(f"the console's shell does not take the loop that runs commands; last seen: {self._last_seen()!r}")

    def _load(self) -> bool:
        """Type the loader, send the loop, and see whether it answers."""
        tag = f"@{secrets.token_hex(4)}@"
        aside = self._requests.frames.aside
        self._requests = Requests(self._stream, self._clock, tag, self._patience)
        self._requests.frames.aside += aside
        self._stream.write(loader(tag, sha256(LOOP.encode())))
        if not self._awaits(f"{tag}go".encode()):
            return False
        for line in loop_lines():
            self._stream.write(line)
        self._entrance.seen = b""
        for _ in range(_PINGS):
            asked = self._requests.say("p")
            if self._requests.exchange({asked}) == Reply(asked, "p", b"ok\n"):
                return True
        return False

    def _awaits(self, word: bytes) -> bool:
        deadline, heard = Deadline.after(self._clock, 2 * self._patience), b""
        while word not in heard:
            chunk = self._stream.read(deadline)
            if not chunk.data:
                return False
            self._entrance.note(chunk.data)
            heard = (heard + chunk.data)[-4096:]
        return True

    # a question

    def _perform(self, question: CommandQuestion, on_line: OnLine | None) -> tuple[int, bytes, bytes]:
        self._job += 1
        job, asks = str(self._job), self._requests
        script, stdin = _script(question.argv), question.stdin
        asks.upload(f"{job}.cmd", script)
        asks.upload(f"{job}.in", stdin)
        if asks.request("r", job, sha256(script), sha256(stdin)) != b"started\n":
            raise Unreachable(f"{question.key}: what was sent over the console did not arrive whole")
        output = _Output(self._clock, on_line)
        try:
            status = self._wait(job, question, output)
            output.add(asks.rest(f"{job}.out", len(output.data)))
            output.finish()
            errors = asks.rest(f"{job}.err", 0)
        except BaseException:  # a Ctrl-C, too, leaves nothing running there
            with suppress(BringupError):
                asks.say("k", job)
            raise
        asks.request("d", job)
        return status, bytes(output.data), errors

    def _wait(self, job: str, question: CommandQuestion, output: _Output) -> int:
        """Look until the command has ended, telling its lines meanwhile where somebody listens. Raises Timeout."""
        deadline, pause = Deadline.after(self._clock, question.timeout), 0.01
        while True:
            passed = deadline.passed(self._clock)
            status, size, _ = words(self._requests.request("q", job))
            if status.isdigit():
                return int(status)
            if status != "-":
                raise Unreachable(f"{question.key}: the host lost track of it ({status!r})")
            if output.is_told and size.isdigit():
                have = len(output.data)
                output.add(self._requests.read(f"{job}.out", have, min(int(size), have + _LIVE_BYTES)))
            if passed:
                raise Timeout(question.key, question.timeout, self._give_up(job, output))
            self._clock.sleep(min(pause, max(0.001, deadline.left(self._clock))))
            pause = min(_SLOWEST_LOOK, pause * 1.5)

    def _give_up(self, job: str, output: _Output) -> str:
        """The last line of a command that ran out of time. It is killed; a loop that does not answer is interrupted."""
        asks = self._requests
        try:
            asks.request("k", job)
            _, size, wrong = words(asks.request("q", job))
            tails = [
                asks.read(f"{job}.{name}", max(0, end - _TAIL_BYTES), end).strip()
                for name, end in (("out", int(size or 0)), ("err", int(wrong or 0)))
            ]
            asks.request("d", job)
        except Unreachable:
            self._is_in = False
            with suppress(BringupError):
                self._stream.write(b"\x03\n")
            return self._last_seen() or _text(output.data[-_TAIL_BYTES:])
        return _text((tails[0] or tails[1]).rpartition(b"\n")[2])

    def _last_seen(self) -> str:
        return last_line(self._requests.last) or last_line(self._entrance.seen)

    # what others say

    def _catch_up(self) -> None:
        """Take what has come since the last question."""
        while (chunk := self._stream.read(Deadline(self._clock.now()))).data:
            self._entrance.note(chunk.data)
            self._entrance.aside += chunk.data

    def _overhear(self, deadline: Deadline) -> Chunk:
        if self._asking:
            raise OwnershipError(f"the console is used as a shell: {self._asking!r} runs on it")
        waiting = bytes(self._entrance.aside + self._requests.frames.aside)
        self._entrance.aside.clear()
        self._requests.frames.aside.clear()
        if waiting:
            return Chunk(waiting, self._clock.now())
        chunk = self._stream.read(deadline)
        self._entrance.note(chunk.data)
        return chunk


class _Listener:
    """The shell's console for a reader."""

    def __init__(self, overhear: Callable[[Deadline], Chunk], stream: Streams) -> None:
        self._overhear = overhear
        self._stream = stream

    def read(self, deadline: Deadline) -> Chunk:
        return self._overhear(deadline)

    def write(self, data: bytes) -> None:
        raise OwnershipError(f"the console belongs to the shell that runs commands on it; {len(data)} bytes were not sent")

    def close(self) -> None:
        self._stream.close()


class _Output:
    """The output of a command as it comes, and who is told its lines."""

    def __init__(self, clock: Clock, on_line: OnLine | None) -> None:
        self.data = bytearray()
        self._clock = clock
        self._on_line = on_line
        self._told = 0

    @property
    def is_told(self) -> bool:
        """Whether somebody listens."""
        return self._on_line is not None

    def add(self, piece: bytes) -> None:
        """Keep it and tell the lines that it completes."""
        self.data += piece
        end = self.data.rfind(b"\n")
        if end >= self._told:
            self._tell(end)
            self._told = end + 1

    def finish(self) -> None:
        """Tell the last line where it has no newline."""
        if len(self.data) > self._told:
            self._tell(len(self.data))
            self._told = len(self.data)

    def _tell(self, end: int) -> None:
        if self._on_line is not None:
            now = self._clock.now()
            for line in self.data[self._told : end].split(b"\n"):
                self._on_line(_text(line), now)


def _script(argv: tuple[str, ...]) -> bytes:
    """The file that becomes the command: it says who it is, so that it can be killed."""
    return f'echo $$ >"${{0%.cmd}}.pid"\nexport LANG=C.UTF-8 LC_ALL=C.UTF-8\nexec {shlex.join(argv)}\n'.encode()


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "backslashreplace")
