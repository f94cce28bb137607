"""The commands and their options, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import harness
from harness.plugin.settings import BUNDLED_BENCH

if TYPE_CHECKING:
    from harness.cli.bios import Page

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
pcie_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Explain what a machine's PCI tree shows.")
smoke_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Try one workload on this machine, without a bench.")
tape_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at and check recordings.")
agent_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What runs on the machine under test.")
bios_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="BIOS settings: show, plan, apply, take back.")
app.add_typer(agent_app, name="agent")
app.add_typer(bench_app, name="bench")
app.add_typer(bios_app, name="bios")
app.add_typer(lab_app, name="lab")
app.add_typer(pcie_app, name="pcie")
app.add_typer(smoke_app, name="smoke")
app.add_typer(tape_app, name="tape")

TapesOption = Annotated[Path | None, typer.Option("--tapes", metavar="DIR", help="Where tapes are read and written.")]

BenchOption = Annotated[str, typer.Option("--bench", metavar="NAME|FILE", help="The machine.")]
AttributesOption = Annotated[
    Path | None, typer.Option("--attributes", metavar="FILE", help="Settings (TOML, JSON, an export) in the platform's place.")
]
DangerOption = Annotated[
    list[str] | None, typer.Option("--danger", metavar="CLASS", help="Allow a danger class of settings, by name.")
]
AssumeFreeOption = Annotated[
    bool, typer.Option("--assume-free", help="Go on where the host is up and cannot be asked who uses it.")
]
StealLockOption = Annotated[
    str, typer.Option("--steal-lock", metavar="OWNER", help="Take the machine from whoever holds it, by the exact name.")
]
FaultOption = Annotated[list[str] | None, typer.Option("--fault", metavar="ID", help="Switch on a fault of the virtual lab.")]


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
    assume_free: AssumeFreeOption = False,
    steal_lock: StealLockOption = "",
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
        assume_free=assume_free,
        steal_lock=steal_lock,
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


@agent_app.command("build")
def agent_build(
    target: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("bringup-agent.pyz"),
) -> None:
    """Write the agent as one file, to be run by hand. The same sources give the same bytes."""
    from harness.cli.agent import build

    for line in build(target):
        typer.echo(line)


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


@bios_app.command("show")
def bios_show(
    bench: BenchOption,
    name: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Settings; all if none.")] = None,
    fault: FaultOption = None,
) -> None:
    """Show settings: now, pending, and what they may be set to."""
    from harness.cli.bios import show

    _say(show(bench, name or (), fault or ()))


@bios_app.command("diff")
def bios_diff(bench: BenchOption, attributes: AttributesOption = None, fault: FaultOption = None) -> None:
    """Show what differs from what is wanted. Exit status 1 where anything does."""
    from harness.cli.bios import diff

    _say(diff(bench, attributes, fault or ()))


@bios_app.command("plan")
def bios_plan(
    bench: BenchOption, attributes: AttributesOption = None, danger: DangerOption = None, fault: FaultOption = None
) -> None:
    """Say what applying would do, in which order and at which risk; touch nothing. Exit status 1 where something would change."""
    from harness.cli.bios import plan

    _say(plan(bench, attributes, danger or (), fault or ()))


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
    fault: FaultOption = None,
) -> None:
    """Change settings and restart the machine; end only when the values are read back after a proven new boot."""
    from harness.cli.bios import Application, apply
    from harness.plugin.signals import orderly_ends

    asked = Application(
        bench=bench,
        attributes=attributes,
        danger=danger or (),
        faults=fault or (),
        restarts=not no_reboot,
        on_conflict=on_conflict,
        assume_free=assume_free,
        steal_lock=steal_lock,
    )
    with orderly_ends():
        page = apply(asked)
    _say(page)


@bios_app.command("clear")
def bios_clear(
    bench: BenchOption,
    name: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Pending settings of others to clear.")] = None,
    job: Annotated[str, typer.Option("--job", metavar="JID", help="The waiting BIOS job to delete with them.")] = "",
    attributes: AttributesOption = None,
    fault: FaultOption = None,
) -> None:
    """Take pending values away: those wanted here, and those that are named."""
    from harness.cli.bios import clear

    _say(clear(bench, name or (), job, attributes, fault or ()))


@bios_app.command("export")
def bios_export(
    bench: BenchOption,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write (JSON).")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    fault: FaultOption = None,
) -> None:
    """Write all settings to a file, secrets left out."""
    from harness.cli.bios import export

    _say(export(bench, file, fault or (), force=force))


@bios_app.command("compare")
def bios_compare(
    names: Annotated[list[str], typer.Argument(metavar="A B...", help="Exports (.json) and benches.")],
) -> None:
    """Compare machines: settings apart from identity and state. Exit status 1 where settings differ."""
    from harness.cli.bios import compare_units

    _say(compare_units(names))


def _say(page: Page) -> None:
    for line in page.lines:
        typer.echo(line)
    raise typer.Exit(page.status)


@app.command()
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
    from harness.plugin.signals import orderly_ends

    asked = Asked(bench, yes, chassis_off, restore, danger or (), folder, fault or (), steal_lock)
    with orderly_ends():
        status = climb(asked, typer.echo, typer.confirm if on_terminal() and not yes else None)
    raise typer.Exit(status)


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


@tape_app.command("show")
def tape_show(
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="A folder or a bench name.")],
    tapes: TapesOption = None,
) -> None:
    """Say what is on a tape: its source first, then its tracks."""
    from harness.cli.tape import show

    for line in show(tape, tapes):
        typer.echo(line)
