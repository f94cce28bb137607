"""``python -m harness`` and the ``bringup`` command."""

from __future__ import annotations

from harness.cli import main as carry_out
from harness.plugin.signals import orderly_ends


def main() -> None:
    """The command as the process that it is: once its status stands, no signal changes that any more."""
    with orderly_ends(is_last=True):
        carry_out()


if __name__ == "__main__":
    main()
