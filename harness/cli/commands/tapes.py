"""``bringup tape``: look at, check and compare recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.commands.options import PseudonymsOption, StrictTapesOption, TapesOption

tape_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at and check recordings.")


@tape_app.command("check")
def tape_check(
    tape: Annotated[list[str] | None, typer.Argument(metavar="[TAPE]...", help="Folders or bench names; all if none.")] = None,
    tapes: TapesOption = None,
    strict_tapes: StrictTapesOption = False,
) -> None:
    """Scan tapes again for secrets and for damage, and warn of old ones. Exit status 4 if anything is found."""
    from harness.cli.tape import check

    lines, clean = check(tape or [], tapes, strict=strict_tapes)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(0 if clean else 4)


@tape_app.command("diff")
def tape_diff(
    one: Annotated[str, typer.Argument(metavar="A", help="A folder or a bench name.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another recording of the same machine doing the same thing.")],
    tolerance: Annotated[
        list[str] | None, typer.Option("--tolerance", metavar="TIME|PERCENT", help='Of times: "10 s" and "40 %" if not given.')
    ] = None,
    tapes: TapesOption = None,
) -> None:
    """Compare two recordings: states collapsed, times within a tolerance. Exit status 1 and a line for each difference."""
    from harness.cli.tape import diff

    differences = diff(one, other, tapes, tolerance or [])
    for difference in differences:
        typer.echo(str(difference))
    if not differences:
        typer.echo(f"{one} and {other} tell the same")
    raise typer.Exit(1 if differences else 0)


@tape_app.command("keep")
def tape_keep(  # noqa: PLR0917 - typer reads the options off the parameters
    run: Annotated[str, typer.Argument(metavar="RUN", help="A live run's folder, or its id below --report.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the tape is called.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a tape of that name.")] = False,
    pseudonyms: PseudonymsOption = None,
    reports: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where reports are.")] = Path("reports"),
    tapes: TapesOption = None,
) -> None:
    """Keep the recording of a live run as a tape, whatever its verdict: of a machine with a fault, say."""
    from harness.cli.report import find_run
    from harness.cli.tape import keep

    typer.echo(keep(find_run(run, reports), name, tapes, force=force, pseudonyms=pseudonyms))


@tape_app.command("trim")
def tape_trim(
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="A folder or a bench name; it is replaced.")],
    stage: Annotated[
        list[str] | None, typer.Option("--stage", metavar="NAME", help="Keep only this stage; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would save.")] = False,
    tapes: TapesOption = None,
) -> None:
    """Take away what no replay of a tape reads. Its replay says afterwards what it said before, or the tape stays as it is."""
    from harness.cli.trim import trim

    typer.echo(trim(tape, tapes, stage or [], dry_run=dry_run))


@tape_app.command("show")
def tape_show(
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="A folder or a bench name.")],
    tapes: TapesOption = None,
) -> None:
    """Say what is on a tape: its source first, then its tracks."""
    from harness.cli.tape import show

    for line in show(tape, tapes):
        typer.echo(line)


@tape_app.command("mutate")
def tape_mutate(
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="A folder or a bench name.")],
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="NAME", help="Only this kind of change; may be repeated.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Mutants of each kind, spread over the tape.")] = 2,
    tapes: TapesOption = None,
) -> None:
    """Change one recorded answer at a time and replay. Exit status 1 if a change passes that no check noticed."""
    from harness.cli.tape import mutate

    raise typer.Exit(mutate(tape, tapes, rule or [], most, typer.echo))
