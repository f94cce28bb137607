"""``bringup map``: which chassis slot hangs from which port."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.commands.options import TapesOption

map_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Learn which chassis slot hangs from which port.")


@map_app.callback()
def maps() -> None:
    """Learn which chassis slot hangs from which port."""


@map_app.command("learn")
def map_learn(  # noqa: PLR0917 - typer reads the options off the parameters
    bench: Annotated[str, typer.Option("--bench", metavar="NAME|FILE", help="The machine and its fabric.")],
    replay: Annotated[bool, typer.Option("--replay", help="Read the machine's tape; touch nothing.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the piece instead of printing it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    tapes: TapesOption = None,
    fault: Annotated[list[str] | None, typer.Option("--fault", metavar="ID", help="Switch on a fault of the virtual lab.")] = None,
) -> None:
    """Join the fabric's list with the PCIe tree by serial number. Exit status 1 where they or the platform differ."""
    from harness.cli import map as map_command

    seen = map_command.look(bench, replay=replay, tapes=tapes, faults=tuple(fault or ()))
    found = map_command.learned(seen)
    for line in map_command.verdict(seen, found):
        typer.echo(line)
    text = map_command.text_of(seen, found)
    if out is None:
        typer.echo(f"\n{text}", nl=False)
    else:
        map_command.write(text, out, force=force)
        typer.echo(f"  written: {out}")
    raise typer.Exit(0 if map_command.is_right(seen, found) else 1)
