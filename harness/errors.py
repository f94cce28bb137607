"""Every exception of the harness, and who is to blame when it is raised.

BringupError
├─ UsageMistake        the caller is wrong
│  ├─ ConfigError          a file says something that cannot be meant (file, key, nearest key)
│  └─ OwnershipError       a machine, lock or console is held by somebody else
├─ BenchError          the set-up failed
│  ├─ Unreachable          nothing answers, or the connection was lost
│  ├─ Untrusted            the TLS certificate or ssh host key is not the known one
│  ├─ AuthRefused          the credentials were refused (one attempt was made)
│  └─ Timeout              a deadline passed (carries the last thing seen)
├─ DeviceError         the product said no
│  ├─ RedfishError         an HTTP error status with its MessageIds
│  ├─ Unreadable           an answer that does not say what it has to say
│  └─ CommandFailed        a command on the host ended with a non-zero status
└─ TapeError           the recording disagrees
   ├─ TapeMismatch         the next write differs from the recorded one
   └─ TapeMiss             a question that was never recorded

NoVerdict              not an error: why a check has nothing to judge
├─ Blocked                something before it failed
├─ NotMeasured            the value could not be read; the run is incomplete
└─ NotApplicable          there was nothing to do, so there is nothing to judge
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Blame(StrEnum):
    """Who has to act on a failure."""

    PRODUCT = "product"
    BENCH = "bench"
    HARNESS = "harness"
    USAGE = "usage"


class BringupError(Exception):
    """Root of all errors that the harness raises on purpose."""

    blame = Blame.HARNESS


class UsageMistake(BringupError):
    """The caller asked for something that cannot be done; the message says what to do instead."""

    blame = Blame.USAGE


class ConfigError(UsageMistake):
    """A bench, platform or tape file is wrong.

    The message is one line: file, key, what is wrong and, for an unknown key, the nearest known one.
    """

    def __init__(self, where: str, problem: str, *, key: str = "", nearest: str = "") -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"{where}: {f'{key}: ' if key else ''}{problem}{hint}")
        self.where = where
        self.key = key
        self.nearest = nearest


class OwnershipError(UsageMistake):
    """Somebody else holds the machine, the lock or the console."""


class BenchError(BringupError):
    """The set-up, not the product, failed."""

    blame = Blame.BENCH


class Unreachable(BenchError):
    """Nothing answers at the address, or the connection was lost before the answer."""


class Untrusted(BenchError):
    """The TLS certificate or ssh host key is not the known one, or there is none to trust. Nothing was sent."""


class AuthRefused(BenchError):
    """The credentials were refused. One attempt was made and none will follow."""


class Timeout(BenchError):
    """A deadline passed.

    ``last`` is the last thing seen before giving up.
    """

    def __init__(self, what: str, seconds: float, last: object) -> None:
        super().__init__(f"{what}: not within {seconds:g} s; last seen: {last!r}")
        self.what = what
        self.seconds = seconds
        self.last = last


class DeviceError(BringupError):
    """The product said no."""

    blame = Blame.PRODUCT


class RedfishError(DeviceError):
    """An HTTP error status from a Redfish service.

    ``message_ids`` are the full ids of the extended info, e.g. ``IDRAC.2.8.SYS011``; texts are never matched.
    """

    def __init__(self, request: str, status: int, message_ids: Sequence[str], detail: str = "") -> None:
        ids = ", ".join(message_ids) or "no MessageId"
        super().__init__(f"{request}: HTTP {status} ({ids}){f': {detail}' if detail else ''}")
        self.request = request
        self.status = status
        self.message_ids = tuple(message_ids)
        self.detail = detail


class Unreadable(DeviceError):
    """An answer that does not say what it has to say: no JSON, a list or a value missing, another type.

    It means "cannot be told", never "none": what depends on it is not done. A wait may ask again.
    """


class CommandFailed(DeviceError):
    """A command on the host ended with a non-zero status; ``tail`` is the end of its error output."""

    def __init__(self, command: str, status: int, tail: str) -> None:
        super().__init__(f"{command}: exit status {status}{f': {tail}' if tail else ''}")
        self.command = command
        self.status = status
        self.tail = tail


class TapeError(BringupError):
    """The recording and the run disagree: never the product's fault."""


class TapeMismatch(TapeError):
    """The next write is not the recorded one, or a recorded write was left unplayed."""


class TapeMiss(TapeError):
    """A question that this tape never recorded."""


class NoVerdict(Exception):
    """Why a check has nothing to judge. Not an error, and never a pass."""


class Blocked(NoVerdict):
    """Something the check depends on failed before it."""


class NotMeasured(NoVerdict):
    """A value could not be read. The run ends incomplete unless the platform calls the check optional."""


class NotApplicable(NoVerdict):
    """There was nothing to do, so there is nothing to judge."""


def blame_for(error: BaseException) -> Blame:
    """Follow the exception's branch; an assertion is the product's, anything unforeseen the harness's."""
    if isinstance(error, BringupError):
        return error.blame
    if isinstance(error, AssertionError):
        return Blame.PRODUCT
    return Blame.HARNESS
