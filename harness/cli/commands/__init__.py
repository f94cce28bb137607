"""The commands and their options, and nothing else: a module a group. What they do stands beside this package."""

from __future__ import annotations

from typing import Annotated

import typer

import harness
from harness.cli.commands.agent import agent_app
from harness.cli.commands.benches import bench_app
from harness.cli.commands.bios import bios_app, rescue_app
from harness.cli.commands.bundles import bundle_app
from harness.cli.commands.gpu import gpu_app
from harness.cli.commands.lab import lab_app
from harness.cli.commands.maps import map_app
from harness.cli.commands.pcie import pcie_app
from harness.cli.commands.runs import run_app
from harness.cli.commands.smoke import smoke_app
from harness.cli.commands.tapes import tape_app

app = typer.Typer(
    name="bringup",
    help="Bring up and validate a multi-GPU server: BMC, BIOS, boot, PCIe, GPUs, P2P, ResNet-50.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(run_app)
app.add_typer(rescue_app)
app.add_typer(bundle_app)
app.add_typer(bench_app, name="bench")
app.add_typer(agent_app, name="agent")
app.add_typer(bios_app, name="bios")
app.add_typer(gpu_app, name="gpu")
app.add_typer(lab_app, name="lab")
app.add_typer(map_app, name="map")
app.add_typer(pcie_app, name="pcie")
app.add_typer(smoke_app, name="smoke")
app.add_typer(tape_app, name="tape")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bringup-harness {harness.__version__}")
        raise typer.Exit


@app.callback()
def bringup(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bring up and validate a multi-GPU server: BMC, BIOS, boot, PCIe, GPUs, P2P, ResNet-50."""
