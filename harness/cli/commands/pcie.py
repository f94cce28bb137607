"""``bringup pcie``: explain what a machine's PCI tree shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

pcie_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Explain what a machine's PCI tree shows.")


@pcie_app.callback()
def pcie() -> None:
    """Explain what a machine's PCI tree shows."""


@pcie_app.command("analyze")
def pcie_analyze(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="lspci, dmesg, nvidia-smi, topologies, a tar of /sys, a bug report; also packed."),
    ],
    platform: Annotated[str | None, typer.Option("--platform", metavar="NAME", help="What the machine should be.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what files that somebody mailed show: the tree, what is wrong, what they leave out. Exit status 1 for a fault."""
    from harness.cli import pcie as pcie_command

    analysis = pcie_command.analyse_files(files, platform)
    for line in [pcie_command.as_json(analysis)] if as_json else pcie_command.as_text(analysis):
        typer.echo(line)
    raise typer.Exit(1 if analysis.failed else 0)


@pcie_app.command("budget")
def pcie_budget(
    platform: Annotated[str, typer.Option("--platform", metavar="NAME", help="What the machine is.")],
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=1, max=192, help="How many; without it every slot.")
    ] = None,
    split: Annotated[str, typer.Option("--split", metavar="N,N,...", help="How many behind each slot, as listed.")] = "",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Only this model of the platform.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say before any restart whether GPUs fit: windows and bus numbers of each slot. Exit status 1 where they do not."""
    from harness.cli import budget as budget_command

    found, made = budget_command.make(platform, gpus, split, model)
    for line in [budget_command.as_json(found, made)] if as_json else budget_command.as_text(found, made):
        typer.echo(line)
    raise typer.Exit(0 if all(budget.fits for budget in made) else 1)
