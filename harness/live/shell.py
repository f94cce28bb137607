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

import base64
import secrets
import shlex
import zlib
from collections.abc import Callable
from contextlib import suppress

from harness.clock import Clock, Deadline
from harness.errors import BringupError, OwnershipError, Timeout, Unreachable, UsageMistake
from harness.live.shell_frames import LOOP, UNIT, Frames, Reply, loader, loop_lines, sha256
from harness.live.shell_login import PROMPT, Entrance, is_lost, last_line
from harness.ports import Chunk, CommandAnswer, CommandQuestion, OnLine, Streams
from harness.secret import SecretReference

PATIENCE = 4.0
"""Seconds of silence after which a request is made again."""

_FAILURES = 12
"""Answers in a row that were damaged or did not come."""

_TALKING = 4.0
"""An answer takes this many times the patience at most, however much others talk."""

_ENTRIES = 3
_LARGEST_UNITS = 32
_LARGEST_PIECE = 1536
"""Bytes of a file in one request: its line must stay below the 4095 characters that a terminal takes (termios(3))."""

_LIVE_BYTES = 8192
_SMALL = 1024
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
        self._frames = Frames("")
        self._is_in = False
        self._asking = ""
        self._number = 0
        self._job = 0
        self._failures = 0
        self._last = b""

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
            raise
        finally:
            self._asking = ""
        ended = self._clock.now()
        return CommandAnswer(status, _text(output), _text(errors), ended, ended - started)

    def close(self) -> None:
        """End our loop there, and log out if we logged in. The stream stays open. Closing twice is harmless; raises nothing."""
        with suppress(BringupError):
            if self._is_in:
                self._say("x")
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
        self._frames = Frames(tag)
        self._stream.write(loader(tag, sha256(LOOP.encode())))
        if not self._awaits(f"{tag}go"):
            return False
        for line in loop_lines():
            self._stream.write(line)
        self._entrance.seen = b""
        for _ in range(3):
            with suppress(Timeout):
                if self._exchange({self._say("p")}) == Reply(self._number, "p", b"ok\n"):
                    return True
        return False

    def _awaits(self, word: str) -> bool:
        deadline, heard = Deadline.after(self._clock, 2 * self._patience), b""
        while word.encode() not in heard:
            chunk = self._stream.read(deadline)
            if not chunk.data:
                return False
            self._entrance.note(chunk.data)
            heard = (heard + chunk.data)[-_SMALL * 4 :]
        return True

    # a question

    def _perform(self, question: CommandQuestion, on_line: OnLine | None) -> tuple[int, bytes, bytes]:
        self._job += 1
        job = str(self._job)
        script, stdin = _script(question.argv), question.stdin
        self._upload(f"{job}.cmd", script)
        self._upload(f"{job}.in", stdin)
        if self._request("r", job, sha256(script), sha256(stdin)) != b"started\n":
            raise Unreachable(f"{question.key}: what was sent over the console did not arrive whole")
        output = _Output(self._clock, on_line)
        try:
            status = self._wait(job, question, output)
            output.add(self._rest(f"{job}.out", len(output.data)))
            output.finish()
            errors = self._rest(f"{job}.err", 0)
        except KeyboardInterrupt:
            self._kill(job)
            raise
        self._request("d", job)
        return status, bytes(output.data), errors

    def _upload(self, name: str, data: bytes) -> None:
        """Write a file there, piece by piece; each is acknowledged before the next is sent, which is all the pacing there is.

        The loop answers with the file's size, so a piece whose acknowledgement was lost is not written twice.
        """
        done, piece = 0, _LARGEST_PIECE
        while done < len(data):
            part = data[done : done + piece]
            size = _number(self._attempt("u", name, str(done), sha256(part), base64.b64encode(part).decode()))
            if size is not None and size > done:
                done, self._failures = size, 0
            else:
                piece = max(48, piece // 2)
                self._fail("u")

    def _wait(self, job: str, question: CommandQuestion, output: _Output) -> int:
        """Look until the command has ended, telling its lines meanwhile where somebody listens. Raises Timeout."""
        deadline, pause = Deadline.after(self._clock, question.timeout), 0.01
        while True:
            passed = deadline.passed(self._clock)
            status, size, _ = (self._request("q", job).decode("ascii", "replace").split() + ["", "", ""])[:3]
            if status.isdigit():
                return int(status)
            if status != "-":
                raise Unreachable(f"{question.key}: the host lost track of it ({status!r})")
            if output.is_told and size.isdigit():
                output.add(self._piecewise(f"{job}.out", len(output.data), min(int(size), len(output.data) + _LIVE_BYTES)))
            if passed:
                raise Timeout(question.key, question.timeout, self._give_up(job, output))
            self._clock.sleep(min(pause, max(0.001, deadline.left(self._clock))))
            pause = min(_SLOWEST_LOOK, pause * 1.5)

    def _give_up(self, job: str, output: _Output) -> str:
        """The last line of a command that ran out of time; it is killed first."""
        self._kill(job)
        if not self._is_in:
            return self._last_seen()
        with suppress(Timeout, Unreachable):
            _, size, wrong = self._request("q", job).decode("ascii", "replace").split()
            for name, end in ((f"{job}.out", int(size)), (f"{job}.err", int(wrong))):
                tail = self._piecewise(name, max(0, end - 2 * UNIT), end) if end else b""
                if tail.strip():
                    self._request("d", job)
                    return _text(tail.rstrip().rpartition(b"\n")[2])
            self._request("d", job)
        return _text(bytes(output.data).rstrip().rpartition(b"\n")[2])

    def _kill(self, job: str) -> None:
        """Kill what runs; a loop that does not answer is interrupted, and the next question begins anew."""
        try:
            self._request("k", job)
        except (Timeout, Unreachable):
            self._is_in = False
            with suppress(BringupError):
                self._stream.write(b"\x03\n")

    # files there

    def _rest(self, name: str, begin: int) -> bytes:
        """A file from ``begin`` on, packed where that is shorter; what comes is what was there, or Unreachable."""
        words = self._request("z", name, str(begin)).decode("ascii", "replace").split()
        digest, size, packed = (words + ["", "", ""])[:3]
        if not size.isdigit():
            raise Unreachable(f"the file {name} is gone from the host")
        plain = f"{name}.z{begin}"
        if packed.isdigit() and int(size) > _SMALL and int(packed) < int(size):
            with suppress(zlib.error):
                data = zlib.decompress(self._piecewise(f"{plain}.gz", 0, int(packed)), wbits=31)
                if sha256(data) == digest:
                    return data
        data = self._piecewise(plain, 0, int(size))
        if sha256(data) != digest:
            raise Unreachable(f"the file {name} came over the console with a wrong checksum")
        return data

    def _piecewise(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file from ``begin`` to ``end``, in blocks that grow smaller where they are damaged."""
        first = begin // UNIT
        begin, end = begin - first * UNIT, end - first * UNIT
        data, units = b"", _LARGEST_UNITS
        while len(data) < end:
            wanted = min(units * UNIT, end - len(data))
            block = self._attempt("b", name, str(first + len(data) // UNIT), str(-(-wanted // UNIT)))
            if block is None or len(block) < wanted:
                units = max(1, units // 2)
                self._fail("b")
            else:
                units, self._failures = min(_LARGEST_UNITS, units + 1), 0
                data += block[:wanted]
        return data[begin:end]

    # requests

    def _request(self, verb: str, *arguments: str) -> bytes:
        """Ask until the answer comes whole. Every request may be made again: none changes what an earlier one did."""
        numbers: set[int] = set()
        while True:
            payload = self._attempt(verb, *arguments, numbers=numbers)
            if payload is not None:
                self._failures = 0
                return payload
            self._fail(verb)

    def _attempt(self, verb: str, *arguments: str, numbers: set[int] | None = None) -> bytes | None:
        """Ask once; None where nothing whole came. ``numbers`` are those of earlier attempts, whose late answers count too."""
        asked = set() if numbers is None else numbers
        asked.add(self._say(verb, *arguments))
        reply = self._exchange(asked)
        if reply is None or reply.request != " ".join((verb, *arguments[:3])):
            return None
        return reply.payload

    def _say(self, verb: str, *arguments: str) -> int:
        self._number += 1
        flush = "\n" if self._failures else ""  # a request that lost its newline is ended before the next
        self._stream.write(f"{flush}{' '.join((verb, str(self._number), *arguments))}\n".encode("ascii"))
        return self._number

    def _exchange(self, numbers: set[int]) -> Reply | None:
        """The next reply to one of ``numbers``; None after silence, or when others have talked for long."""
        deadline = Deadline.after(self._clock, _TALKING * self._patience)
        while not deadline.passed(self._clock):
            chunk = self._stream.read(Deadline.after(self._clock, self._patience))
            if not chunk.data:
                break
            self._last = (self._last + chunk.data)[-_SMALL:]
            for reply in self._frames.feed(chunk.data):
                if reply.number in numbers:
                    return reply
            self._insist_on_session(self._frames.raw if b"\n" in chunk.data else b"")
        self._insist_on_session(self._frames.raw)
        self._frames.drop()
        return None

    def _insist_on_session(self, said: bytes) -> None:
        if said and is_lost(said):
            self._frames.drop()
            self._entrance.note(said)
            raise Unreachable(
                f"the session on the console is over: the host restarted or logged out; last seen: {last_line(said)!r}"
            )

    def _fail(self, verb: str) -> None:
        """Count what did not come whole in a row. Raises Timeout where it is too much."""
        self._failures += 1
        if self._failures > _FAILURES:
            self._is_in, self._failures = False, 0
            raise Timeout(f"a whole answer on the console ({verb})", _FAILURES * self._patience, self._last_seen())

    def _last_seen(self) -> str:
        return last_line(self._last) or last_line(self._entrance.seen)

    # what others say

    def _catch_up(self) -> None:
        """Take what has come since the last question."""
        while (chunk := self._stream.read(Deadline(self._clock.now()))).data:
            self._entrance.note(chunk.data)
            self._entrance.aside += chunk.data

    def _overhear(self, deadline: Deadline) -> Chunk:
        if self._asking:
            raise OwnershipError(f"the console is used as a shell: {self._asking!r} runs on it")
        waiting = bytes(self._entrance.aside + self._frames.aside)
        self._entrance.aside.clear()
        self._frames.aside.clear()
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


def _number(payload: bytes | None) -> int | None:
    text = b"" if payload is None else payload.strip()
    return int(text) if text.isdigit() else None


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "backslashreplace")
