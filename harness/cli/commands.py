"""The commands and their options, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import harness
from harness.plugin.settings import BUNDLED_BENCH

app = typer.Typer(
    name="bringup",
    help="Bring up and validate a multi-GPU server: BMC, BIOS, boot, PCIe, GPUs, P2P, ResNet-50.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
bench_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Draft and check bench files.")
lab_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The virtual lab.")
smoke_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Try one workload on this machine, without a bench.")
tape_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at and check recordings.")
app.add_typer(bench_app, name="bench")
app.add_typer(lab_app, name="lab")
app.add_typer(smoke_app, name="smoke")
app.add_typer(tape_app, name="tape")

TapesOption = Annotated[Path | None, typer.Option("--tapes", metavar="DIR", help="Where tapes are read and written.")]


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


@app.command()
def run(  # noqa: PLR0917 - typer reads the options off the parameters
    bench: Annotated[str | None, typer.Option("--bench", metavar="NAME|FILE", help="The machine; needs a mode.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Touch the machine.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Replay the machine's tape; touch nothing.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Run live; replace the tape if everything passes.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Allow settings to be changed and reboots.")] = False,
    no_apply: Annotated[bool, typer.Option("--no-apply", help="Only compare, even on a simulated machine.")] = False,
    danger: Annotated[
        list[str] | None, typer.Option("--danger", metavar="CLASS", help="Allow a danger class of settings, by name.")
    ] = None,
    stage: Annotated[list[str] | None, typer.Option("--stage", metavar="NAME", help="Run only this stage.")] = None,
    suite: Annotated[list[Path] | None, typer.Option("--suite", metavar="PATH", help="Add checks of your own.")] = None,
    report: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where to write reports.")] = Path("reports"),
    tapes: TapesOption = None,
    fault: Annotated[list[str] | None, typer.Option("--fault", metavar="ID", help="Switch on a fault of the virtual lab.")] = None,
) -> None:
    """Qualify a machine, stage by stage. Without options: replay the bundled recording of a modelled machine."""
    from harness.cli.run import run_and_report
    from harness.errors import UsageMistake
    from harness.plugin.settings import Settings, choose_mode
    from harness.plugin.signals import orderly_ends

    if apply and no_apply:
        raise UsageMistake("--apply and --no-apply exclude each other")
    if bench is None and (live or record):
        raise UsageMistake("--live and --record need --bench NAME: which machine?")
    settings = Settings(
        bench=bench or BUNDLED_BENCH,
        mode=choose_mode(named=bench is not None, live=live, replay=replay, record=record),
        apply=True if apply else False if no_apply else None,
        danger=frozenset(danger or ()),
        stages=tuple(stage or ()),
        suites=tuple(suite or ()),
        faults=tuple(fault or ()),
        report=report,
        tapes=tapes,
        command=("bringup", *sys.argv[1:]),
    )
    with orderly_ends():
        status = run_and_report(settings)
    raise typer.Exit(status)


@app.command()
def report(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its id below --report.")],
    reports: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where reports are.")] = Path("reports"),
    form: Annotated[
        str, typer.Option("--format", metavar="html|junit|ocp|prometheus|csv|md", help="Print it in this form instead.")
    ] = "",
) -> None:
    """Render the reports of a run again from its record."""
    from harness.cli.run import print_report, report_again

    if form:
        print_report(run_folder, reports, form)
    else:
        report_again(run_folder, reports)


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


@app.command()
def console(
    words: Annotated[list[str], typer.Argument(metavar="[probe] BENCH [URL]...", help="The bench; with probe also other ports.")],
) -> None:
    """Open a bench's console on this terminal; Ctrl-] ends. With probe: find out which port and baud rate talk."""
    from harness.cli.console import open_here, probe
    from harness.errors import UsageMistake

    if words[0] == "probe" and len(words) > 1:
        found = False
        for line, talks in probe(words[1], tuple(words[2:])):
            typer.echo(line)
            found = found or talks
        raise typer.Exit(0 if found else 3)
    if len(words) > 1:
        raise UsageMistake(f"{words[1]!r}: bringup console takes one bench; only probe takes further ports")
    open_here(words[0])


@lab_app.command("faults")
def lab_faults(
    grade: Annotated[str, typer.Option("--grade", metavar="model|qemu", help="Whose faults.")] = "model",
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


@tape_app.command("check")
def tape_check(
    tape: Annotated[list[str] | None, typer.Argument(metavar="[TAPE]...", help="Folders or bench names; all if none.")] = None,
    tapes: TapesOption = None,
) -> None:
    """Scan tapes again for secrets and for damage. Exit status 4 if anything is found."""
    from harness.cli.tape import check

    lines, clean = check(tape or [], tapes)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(0 if clean else 4)


@tape_app.command("show")
def tape_show(
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="A folder or a bench name.")],
    tapes: TapesOption = None,
) -> None:
    """Say what is on a tape: its source first, then its tracks."""
    from harness.cli.tape import show

    for line in show(tape, tapes):
        typer.echo(line)
