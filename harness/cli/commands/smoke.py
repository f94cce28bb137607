"""``bringup smoke``: one workload on this machine, without a bench."""

from __future__ import annotations

from typing import Annotated

import typer

smoke_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Try one workload on this machine, without a bench.")


@smoke_app.callback()
def smoke() -> None:
    """Try one workload on this machine, without a bench."""


@smoke_app.command("resnet50")
def smoke_resnet50(  # noqa: PLR0917 - typer reads the options off the parameters
    device: Annotated[str, typer.Option("--device", metavar="cuda|cpu", help="On what.")] = "cuda",
    framework: Annotated[str, typer.Option("--framework", metavar="pytorch|tensorflow", help="With what.")] = "pytorch",
    ranks: Annotated[int, typer.Option("--ranks", metavar="N", help="Processes; every GPU, or two on the processor.")] = 0,
    windows: Annotated[int, typer.Option("--windows", metavar="N", help="Measured windows.")] = 0,
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Steps a window.")] = 0,
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="Images a step and device.")] = 0,
    python: Annotated[str, typer.Option("--python", metavar="FILE", help="A Python that has the framework.")] = "",
) -> None:
    """Train ResNet-50 for a moment on every device alone and on all together; exit status 1 where one computes wrongly."""
    from harness.cli.smoke import Wish, train_here
    from harness.plugin.signals import orderly_ends

    with orderly_ends():
        status = train_here(Wish(device, framework, ranks, windows, steps, batch, python))
    raise typer.Exit(status)
