"""The command line. Every command imports what it needs when it is called, so that ``--help`` stays fast.

The exit status tells whose fault it is, so 1 (the product failed) never stands for anything else:

    UsageMistake 2 · what the operating system refuses 2 · BenchError 3 · TapeError, anything unforeseen 4
    Ctrl-C 130 · the reader of a listing went away 141, as a shell says it
"""

from __future__ import annotations

import sys

from harness.cli.streams import complain, give_up_output, reason, take_missing
from harness.errors import BringupError, UsageMistake


def main() -> None:
    """Run the ``bringup`` command; a mistake is one line on standard error, never a traceback."""
    if not take_missing():
        complain("standard output is closed; send it to a file, or to /dev/null")
        sys.exit(2)
    try:
        status = _status()
    except Exception:
        import traceback

        complain(f"a fault of the harness itself:\n{traceback.format_exc()}".rstrip())
        status = 4
    sys.exit(status)


def _status() -> int:
    try:
        return _carry_out()
    except BringupError as error:
        complain(str(error))
        return 2 if isinstance(error, UsageMistake) else _exit_for(error)
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
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
        status = done.code
    else:
        status = 0
    if sys.stdout is not stdout:  # so typer marks a reader that went away, with a status of 1
        sys.stdout = stdout
        raise BrokenPipeError
    stdout.flush()
    return status if isinstance(status, int) else 0


def _exit_for(error: BringupError) -> int:
    """The exit status of an error outside a run: product 1, bench 3, recording or harness 4."""
    return {"product": 1, "bench": 3}.get(error.blame.value, 4)
