"""The command line. Every command imports what it needs when it is called, so that ``--help`` stays fast.

The exit status tells whose fault it is, so 1 (the product failed) never stands for anything else:

    UsageMistake 2 · what the operating system refuses 2 · BenchError 3 · TapeError, anything unforeseen 4
    Ctrl-C, SIGTERM, SIGHUP 130, from the first moment on · the reader of a listing went away 141, as a shell says it
"""

from __future__ import annotations

import sys

from harness.plugin.signals import orderly_ends

INTERRUPTED = 130
"""The exit status of a command whose end was asked for."""


def main() -> None:
    """Run the ``bringup`` command; a mistake is one line on standard error, never a traceback.

    An end that is asked for is orderly before anything else is imported and until the last line is said.
    """
    with orderly_ends():
        try:
            status = _status()
        except KeyboardInterrupt:
            status = _say_interrupted()
    sys.exit(status)


def _status() -> int:
    from harness.cli.streams import complain, complain_at_length, take_missing

    if not take_missing():
        complain("standard output is closed; send it to a file, or to /dev/null")
        return 2
    try:
        return _judged()
    except Exception:
        import traceback

        complain_at_length(f"a fault of the harness itself:\n{traceback.format_exc()}".rstrip())
        return 4


def _judged() -> int:
    """The exit status of what was carried out. Raises what nobody foresaw."""
    from harness.cli.streams import complain, give_up_output, reason
    from harness.errors import BringupError, UsageMistake

    try:
        return _carry_out()
    except BringupError as error:
        complain(str(error))
        # outside a run: product 1, bench 3, recording or harness 4
        return 2 if isinstance(error, UsageMistake) else {"product": 1, "bench": 3}.get(error.blame.value, 4)
    except BrokenPipeError:
        give_up_output()
        return 141
    except OSError as error:
        complain(reason(error))
        give_up_output()
        return 2


def _carry_out() -> int:
    from harness.cli.commands import app

    stdout = sys.stdout
    try:
        app()
    except SystemExit as done:
        if _was_interrupted(done):
            raise KeyboardInterrupt from None
        status = done.code
    else:
        status = 0
    if sys.stdout is not stdout:  # so typer marks a reader that went away, with a status of 1
        sys.stdout = stdout
        raise BrokenPipeError
    stdout.flush()
    return status if isinstance(status, int) else 0


def _was_interrupted(done: SystemExit) -> bool:
    """True where typer has made the exit out of an interruption, about which it says nothing."""
    cause: BaseException | None = done
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _say_interrupted() -> int:
    from harness.cli.streams import complain, take_missing

    take_missing()
    complain("interrupted")
    return INTERRUPTED
