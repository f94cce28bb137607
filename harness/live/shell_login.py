"""Where a console is, and the way from there to a shell prompt.

look ─┬─ login ─────── user ─┬─ shell                       (no password asked)
      │                      └─ password ─ the one attempt ─┬─ shell
      │                                                     └─ refused: AuthRefused, and never tried again
      ├─ password ──── somebody was interrupted there: left by end-of-file, then login
      ├─ shell
      ├─ firmware ──── GRUB or the EFI shell: nothing is typed
      └─ unknown ───── text is running: nothing is typed. Silent: one Return, to be shown the prompt again
"""

from __future__ import annotations

import re
from enum import StrEnum

from harness.clock import Clock, Deadline
from harness.errors import AuthRefused, Timeout, Unreachable
from harness.live.shell_frames import own, plain
from harness.ports import Streams
from harness.secret import SecretReference

PROMPT = r"[#$%>] ?$"
"""How a line ends at which a shell waits."""

_LOGIN = re.compile(r"login: ?$", re.IGNORECASE)
_PASSWORD = re.compile(r"(?:password|passphrase)[^:\n]{0,60}: ?$", re.IGNORECASE)
_REFUSED = re.compile(
    r"login incorrect|authentication failure|permission denied|account .{0,40}locked|maximum number of tries", re.IGNORECASE
)
_FIRMWARE = re.compile(r"^(?:grub(?: rescue)?>|shell>|=>) ?$", re.IGNORECASE)
_BOOTS = re.compile(rb"Linux version \d|Command line: |EFI stub: ")
_LINE = 200
_KEPT = 4096
_QUIET_SECONDS = 0.3
_LOOKING_SECONDS = 2.0
_UNLOCKING_SECONDS = 30.0
"""PAM waits some seconds after a wrong password, a first login may print for a while."""


class Place(StrEnum):
    """Where a console is."""

    LOGIN = "a login prompt"
    PASSWORD = "a password prompt"  # noqa: S105
    SHELL = "a shell prompt"
    FIRMWARE = "the firmware's or the boot loader's prompt"
    UNKNOWN = "something else"


def last_line(seen: bytes) -> str:
    """The last line that is not empty, without terminal control and without what the kernel said after it; 200 characters."""
    lines = [line for line in own(seen[-_KEPT:]).decode("utf-8", "backslashreplace").split("\n") if line.strip()]
    return lines[-1][-_LINE:] if lines else ""


def place_of(seen: bytes, prompt: str = PROMPT) -> Place:
    """Where a console is by the last line of what it said; patterns see 200 characters at most."""
    line = last_line(seen)
    for place, pattern in ((Place.LOGIN, _LOGIN), (Place.PASSWORD, _PASSWORD), (Place.FIRMWARE, _FIRMWARE)):
        if pattern.search(line):
            return place
    return Place.SHELL if re.search(prompt, line) else Place.UNKNOWN


def is_lost(seen: bytes) -> bool:
    """Whether what was said means that a session there is over: a kernel began, or a login or firmware prompt is at the end."""
    return bool(_BOOTS.search(plain(seen))) or place_of(seen) in (Place.LOGIN, Place.FIRMWARE)


class Entrance:
    """Gets from wherever the console is to a shell prompt. ``seen`` is the end of what it said, whoever read it."""

    def __init__(
        self, stream: Streams, clock: Clock, *, user: str = "", password: SecretReference | None = None, prompt: str = PROMPT
    ) -> None:
        self.has_logged_in = False
        self.seen = b""
        self.aside = bytearray()
        self._stream = stream
        self._clock = clock
        self._user = user
        self._password = password
        self._prompt = prompt
        self._refusal = ""

    @property
    def place(self) -> Place:
        """Where it is by what was seen so far."""
        return place_of(self.seen, self._prompt)

    def note(self, data: bytes) -> None:
        """Take account of bytes that somebody read."""
        self.seen = (self.seen + data)[-_KEPT:]

    def enter(self) -> None:
        """Get to a shell prompt.

        Raises AuthRefused where the login fails or cannot be made (one attempt ever), Unreachable where the machine is in its
        firmware, Timeout with the last line where the console is busy or silent.
        """
        place = self._locate()
        if place is Place.PASSWORD:
            self._say(b"\x04")
            place = self._locate()
        if place is Place.LOGIN:
            self._login()
        elif place is not Place.SHELL:
            self._refuse_place(place)

    def _locate(self) -> Place:
        """Look before typing. Nothing is typed into running text; a silent console is asked for its prompt.

        The second time with the words that end a loop of ours which a killed harness left there.
        """
        for typed in (b"", b"\r", b"\n.\nx 0\n\r"):
            self._say(typed)
            self.listen()
            if self.place is not Place.UNKNOWN:
                return self.place
            if self._is_running():
                return Place.UNKNOWN
        return self.place

    def _is_running(self) -> bool:
        """Whether text keeps coming."""
        return len(self.listen()) > 0

    def listen(self, seconds: float = _LOOKING_SECONDS) -> bytes:
        """What comes until it is quiet for a moment."""
        heard, deadline = b"", Deadline.after(self._clock, seconds)
        while not deadline.passed(self._clock):
            quiet = Deadline(min(deadline.at, self._clock.now() + _QUIET_SECONDS))
            chunk = self._stream.read(quiet)
            if not chunk.data:
                break
            self.note(chunk.data)
            heard += chunk.data
        self.aside += heard
        return heard

    def _say(self, data: bytes) -> None:
        if data:
            self._stream.write(data)

    def _login(self) -> None:
        if self._refusal:
            raise AuthRefused(self._refusal)
        if not self._user:
            raise AuthRefused("the console is at a login prompt and no user is named: give host.user (and host.password)")
        place = self._answer(self._user.encode() + b"\r")
        if place is Place.PASSWORD:
            place = self._unlock()
        if place is not Place.SHELL:
            self._refuse_place(place)
        self.has_logged_in = True

    def _unlock(self) -> Place:
        """The one attempt at the password."""
        if self._password is None:
            self._say(b"\x04")
            self._refusal = f"the console asks for the password of {self._user!r} and host.password is not given; none was tried"
            raise AuthRefused(self._refusal)
        place = self._answer(self._password.read().reveal().encode() + b"\r")
        if place in (Place.LOGIN, Place.PASSWORD):
            self._refusal = (
                f"the console refused user {self._user!r} with the password from {self._password} "
                f"(it said {self._said()!r}); one attempt was made and none will follow"
            )
            raise AuthRefused(self._refusal)
        return place

    def _answer(self, typed: bytes) -> Place:
        """Type and wait for the next prompt. A refusal that is followed by no prompt yet counts as the login prompt."""
        self.seen = b""
        self._say(typed)
        deadline = Deadline.after(self._clock, _UNLOCKING_SECONDS)
        while not deadline.passed(self._clock):
            self.listen(min(_LOOKING_SECONDS, deadline.left(self._clock)))
            if _REFUSED.search(self.seen.decode("utf-8", "backslashreplace")):
                return Place.LOGIN
            if self.place is not Place.UNKNOWN and not self._is_echo(typed):
                return self.place
        return self.place

    def _is_echo(self, typed: bytes) -> bool:
        """Whether nothing but what was typed has come back: a user called ``a$`` is no prompt."""
        return own(self.seen).strip() == typed.strip()

    def _said(self) -> str:
        found = _REFUSED.search(self.seen.decode("utf-8", "backslashreplace"))
        return found[0] if found else last_line(self.seen)

    def _refuse_place(self, place: Place) -> None:
        last = last_line(self.seen)
        if place is Place.FIRMWARE:
            raise Unreachable(f"the console is at {place}, not at an operating system; last seen: {last!r}")
        raise Timeout("a prompt on the console", _LOOKING_SECONDS, last)
