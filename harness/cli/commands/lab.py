"""``bringup lab``: the virtual lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

lab_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The virtual lab.")


@lab_app.command("faults")
def lab_faults(
    grade: Annotated[str, typer.Option("--grade", metavar="model|qemu|idrac", help="Whose faults.")] = "model",
) -> None:
    """List the faults of the virtual lab: id, what it does, which check must catch it."""
    from harness.cli.lab import describe_faults

    for line in describe_faults(grade):
        typer.echo(line)


@lab_app.command("build")
def lab_build(
    kernel: Annotated[Path | None, typer.Option("--kernel", metavar="FILE", help="Another distribution's kernel.")] = None,
    initrd: Annotated[Path | None, typer.Option("--initrd", metavar="FILE", help="Its initramfs, with a login on ttyS0.")] = None,
) -> None:
    """Make the image that the virtual machine boots, from Debian packages that are not installed."""
    from harness.cli.lab import build

    for line in build(kernel, initrd):
        typer.echo(line)


@lab_app.command("up")
def lab_up(
    fault: Annotated[list[str] | None, typer.Option("--fault", metavar="ID", help="Switch on a fault of the qemu grade.")] = None,
) -> None:
    """Keep a virtual machine and its iDRAC for work by hand; it begins switched off."""
    from harness.cli.lab import up

    for line in up(fault or []):
        typer.echo(line)


@lab_app.command("status")
def lab_status() -> None:
    """Say whether the virtual machine is there and how it is reached. Exit status 1 where it is not."""
    from harness.cli.lab import status

    lines, is_up = status()
    for line in lines:
        typer.echo(line)
    raise typer.Exit(0 if is_up else 1)


@lab_app.command("down")
def lab_down() -> None:
    """Take the virtual machine away; nothing of it is left."""
    from harness.cli.lab import down

    typer.echo(down())


@lab_app.command("idrac")
def lab_idrac(
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="idrac9-3.15-14g, idrac9-7.00-14g, idrac9-7.10-15g or idrac10.")
    ] = "idrac9-7.00-14g",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port on loopback; 0 takes a free one.")] = 0,
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="ID", help="Switch on a fault: bringup lab faults --grade idrac.")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", metavar="N", help="How many times as fast its machine's time runs.")] = 1.0,
) -> None:
    """Serve a simulated iDRAC alone over TLS, for any client, until Ctrl-C."""
    from harness.cli.lab import serve_idrac

    serve_idrac(profile, port, fault or [], speed, typer.echo)
