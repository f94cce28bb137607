"""``bringup bios`` and ``bringup rescue``: BIOS settings, and a machine that does not start any more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.commands.options import AssumeFreeOption, AttributesOption, BenchOption, DangerOption, FaultOption, StealLockOption

if TYPE_CHECKING:
    from harness.cli.bios import Page
    from harness.cli.streams import Lines

bios_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="BIOS settings: show, plan, apply, take back.")
rescue_app = typer.Typer()


@bios_app.command("show")
def bios_show(
    bench: BenchOption,
    name: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Settings; all if none.")] = None,
    fault: FaultOption = None,
) -> None:
    """Show settings: now, pending, and what they may be set to."""
    from harness.cli.bios import show

    _show(show(bench, name or (), fault or ()))


@bios_app.command("diff")
def bios_diff(bench: BenchOption, attributes: AttributesOption = None, fault: FaultOption = None) -> None:
    """Show what differs from what is wanted. Exit status 1 where anything does."""
    from harness.cli.bios import diff

    _show(diff(bench, attributes, fault or ()))


@bios_app.command("plan")
def bios_plan(
    bench: BenchOption, attributes: AttributesOption = None, danger: DangerOption = None, fault: FaultOption = None
) -> None:
    """Say what applying would do, in which order and at which risk; touch nothing. Exit status 1 where something would change."""
    from harness.cli.bios import plan

    _show(plan(bench, attributes, danger or (), fault or ()))


@bios_app.command("apply")
def bios_apply(  # noqa: PLR0917 - typer reads the options off the parameters
    bench: BenchOption,
    attributes: AttributesOption = None,
    danger: DangerOption = None,
    no_reboot: Annotated[bool, typer.Option("--no-reboot", help="Leave the job scheduled for the next restart.")] = False,
    on_conflict: Annotated[
        str, typer.Option("--on-conflict", metavar='refuse|wait|"replace JID"', help="What to do about jobs of others.")
    ] = "refuse",
    assume_free: AssumeFreeOption = False,
    steal_lock: StealLockOption = "",
    folder: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where the settings of before are kept.")] = Path(
        "reports"
    ),
    fault: FaultOption = None,
) -> None:
    """Change settings and restart the machine; end only when the values are read back after a proven new boot."""
    from harness.cli.bios import Application, apply
    from harness.cli.streams import Lines

    asked = Application(
        bench=bench,
        attributes=attributes,
        danger=danger or (),
        faults=fault or (),
        restarts=not no_reboot,
        on_conflict=on_conflict,
        assume_free=assume_free,
        steal_lock=steal_lock,
        reports=folder,
    )
    said = Lines()
    _tell(apply(asked, said), said)


@bios_app.command("clear")
def bios_clear(  # noqa: PLR0917 - typer reads the options off the parameters
    bench: BenchOption,
    name: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Pending settings of others to clear.")] = None,
    job: Annotated[str, typer.Option("--job", metavar="JID", help="The waiting BIOS job to delete with them.")] = "",
    attributes: AttributesOption = None,
    assume_free: AssumeFreeOption = False,
    steal_lock: StealLockOption = "",
    fault: FaultOption = None,
) -> None:
    """Take pending values away: those wanted here, and those that are named."""
    from harness.cli.bios import Clearance, clear
    from harness.cli.streams import Lines

    _tell(clear(Clearance(bench, name or (), job, attributes, fault or (), assume_free, steal_lock)), Lines())


@bios_app.command("export")
def bios_export(
    bench: BenchOption,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write (JSON).")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    fault: FaultOption = None,
) -> None:
    """Write all settings to a file, secrets left out."""
    from harness.cli.bios import export

    _show(export(bench, file, fault or (), force=force))


@bios_app.command("compare")
def bios_compare(
    names: Annotated[list[str], typer.Argument(metavar="A B...", help="Exports (.json) and benches.")],
) -> None:
    """Compare machines: settings apart from identity and state. Exit status 1 where settings differ."""
    from harness.cli.bios import compare_units

    _show(compare_units(names))


def _show(page: Page) -> None:
    """Write what a look has found, as far as it is taken."""
    from harness.cli.streams import put

    lost = next((error for line in page.lines if (error := put(line)) is not None), None)
    if lost is not None:
        raise lost
    raise typer.Exit(page.status)


def _tell(page: Page, said: Lines) -> None:
    """Write what became of a machine, to whoever still takes it."""
    for line in page.lines:
        said.put(line)
    if said.lost is not None:
        raise said.lost
    raise typer.Exit(page.status)


@rescue_app.command()
def rescue(  # noqa: PLR0917 - typer reads the options off the parameters
    bench: BenchOption,
    yes: Annotated[bool, typer.Option("--yes", help="Take every rung without asking.")] = False,
    chassis_off: Annotated[bool, typer.Option("--chassis-off", help="The GPUs were already taken away by hand.")] = False,
    restore: Annotated[
        Path | None,
        typer.Option("--restore", metavar="FILE", help="Settings to put back once it runs bare: an export, TOML, JSON."),
    ] = None,
    danger: DangerOption = None,
    folder: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where evidence is saved.")] = Path("reports"),
    steal_lock: StealLockOption = "",
    fault: FaultOption = None,
) -> None:
    """Bring back a machine that does not start any more, rung by rung; without a terminal and --yes only show the ladder."""
    from harness.cli.rescue import Asked, on_terminal
    from harness.cli.rescue import rescue as climb
    from harness.cli.streams import Lines
    from harness.report.text import visible

    said = Lines()
    asked = Asked(bench, yes, chassis_off, restore, danger or (), folder, fault or (), steal_lock)
    ask = (lambda question: typer.confirm(visible(question))) if on_terminal() and not yes else None
    status = climb(asked, said.put, ask)
    if said.lost is not None:
        raise said.lost
    raise typer.Exit(status)
