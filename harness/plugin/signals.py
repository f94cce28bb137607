"""Ends that are asked for from outside: Ctrl-C, SIGTERM, a terminal that closes.

first signal      KeyboardInterrupt: sessions are closed, the record is closed, the hand-over line is said
any more of them  ignored from then on (SIGKILL and SIGQUIT always work)
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Once:
    """Raises for the first signal only. The context may be nested: the outermost one counts."""

    raised = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - called so
        if not self.raised:
            self.raised = True
            raise KeyboardInterrupt


@contextmanager
def orderly_ends(*, is_last: bool = False) -> Iterator[None]:
    """Let the first such signal end a block in order. A signal that the caller has ignored (nohup, ``&``) stays ignored.

    ``is_last``: nothing but the end of the process comes after the block, so all of them are ignored from there on.
    """
    if isinstance(signal.getsignal(signal.SIGTERM), _Once):
        yield
        return
    once = _Once()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, once)
    try:
        yield
    finally:
        for number, handler in before.items():
            # once the end was asked for, asking again must not cost the last lines, nor the exit status
            signal.signal(number, signal.SIG_IGN if once.raised or is_last else handler)
