"""The command line. Every command imports what it needs when it is called, so that ``--help`` stays fast."""

from __future__ import annotations

import sys

from harness.errors import BringupError, UsageMistake


def main() -> None:
    """Run the ``bringup`` command; a mistake is one line on standard error, never a traceback."""
    from harness.cli.commands import app

    try:
        app()
    except BringupError as error:
        sys.stderr.write(f"bringup: {error}\n")
        sys.exit(2 if isinstance(error, UsageMistake) else _exit_for(error))
    except KeyboardInterrupt:
        sys.stderr.write("bringup: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


def _exit_for(error: BringupError) -> int:
    """The exit status of an error outside a run: product 1, bench 3, recording or harness 4."""
    return {"product": 1, "bench": 3}.get(error.blame.value, 4)
