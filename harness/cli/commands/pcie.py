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
