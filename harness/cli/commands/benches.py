"""``bringup bench``: draft and check bench files."""

from __future__ import annotations

from typing import Annotated

import typer

bench_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Draft and check bench files.")


@bench_app.command("new")
def bench_new(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The bench's name.")] = "",
    from_live: Annotated[
        str | None, typer.Option("--from-live", metavar="local", help="Draft it from the machine this runs on.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Draft a bench and its platform below ./fixtures, for a person to complete."""
    from harness.cli.bench import draft

    for written in draft(name, from_live, force=force):
        typer.echo(f"wrote {written}")


@bench_app.command("check")
def bench_check(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="The bench to check.")],
) -> None:
    """Read a bench and its platform and say what they mean; touch nothing."""
    from harness.cli.bench import describe

    for line in describe(name):
        typer.echo(line)
