"""``bringup agent``: what runs on the machine under test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

agent_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What runs on the machine under test.")


@agent_app.command("build")
def agent_build(
    target: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("bringup-agent.pyz"),
) -> None:
    """Write the agent as one file, to be run by hand. The same sources give the same bytes."""
    from harness.cli.agent import build

    for line in build(target):
        typer.echo(line)
