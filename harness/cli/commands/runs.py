"""Runs of the stages, their reports, and the console."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.commands.options import AssumeFreeOption, PseudonymsOption, StealLockOption, StrictTapesOption, TapesOption
from harness.plugin.settings import BUNDLED_BENCH

run_app = typer.Typer()


@run_app.command()
def run(  # noqa: PLR0917 - typer reads the options off the parameters
    bench: Annotated[str | None, typer.Option("--bench", metavar="NAME|FILE", help="The machine; needs a mode.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Touch the machine.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Replay the machine's tape; touch nothing.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Run live; replace the tape if everything passes.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run live; compare what the machine answers, in shape, with its tape. Writes no tape.")
    ] = False,
    resume: Annotated[
        str, typer.Option("--resume", metavar="RUN", help="Go on with a live run that was cut off, after its last finished stage.")
    ] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Allow settings to be changed and reboots.")] = False,
    no_apply: Annotated[bool, typer.Option("--no-apply", help="Only compare, even on a simulated machine.")] = False,
    danger: Annotated[
        list[str] | None, typer.Option("--danger", metavar="CLASS", help="Allow a danger class of settings, by name.")
    ] = None,
    assume_free: AssumeFreeOption = False,
    force_p2p: Annotated[
        bool,
        typer.Option(
            "--force-p2p", help="DANGER: copy between GPUs although an IOMMU translates; other devices' memory may be overwritten."
        ),
    ] = False,
    steal_lock: StealLockOption = "",
    stage: Annotated[list[str] | None, typer.Option("--stage", metavar="NAME", help="Run only this stage.")] = None,
    suite: Annotated[list[Path] | None, typer.Option("--suite", metavar="PATH", help="Add checks of your own.")] = None,
    waivers: Annotated[
        Path | None, typer.Option("--waivers", metavar="FILE", help="What somebody answers for until a date.")
    ] = None,
    report: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where to write reports.")] = Path("reports"),
    tapes: TapesOption = None,
    strict_tapes: StrictTapesOption = False,
    pseudonyms: PseudonymsOption = None,
    lab_driver: Annotated[
        Path | None,
        typer.Option("--lab-driver", metavar="DIR", help="Run a modelled machine's GPU workers on the driver libraries there."),
    ] = None,
    grow: Annotated[
        bool, typer.Option("--grow", help="1, 2, 4, 8, ... GPUs, a start each; runs no stage. Modelled machine.")
    ] = False,
    fault: Annotated[list[str] | None, typer.Option("--fault", metavar="ID", help="Switch on a fault of the virtual lab.")] = None,
) -> None:
    """Qualify a machine, stage by stage. Without options: replay the bundled recording of a modelled machine."""
    from harness.cli.report import find_run
    from harness.cli.run import run_and_report
    from harness.errors import UsageMistake
    from harness.plugin.settings import Settings, choose_mode
    from harness.plugin.signals import orderly_ends
    from harness.record.reader import read_record

    if apply and no_apply:
        raise UsageMistake("--apply and --no-apply exclude each other")
    resumed = None
    if resume:
        if live or record or replay or verify or grow or stage or fault:
            raise UsageMistake("--resume goes on live with that run's own stages: leave mode, --grow, --stage and --fault out")
        resumed = find_run(resume, report)
        bench = bench or read_record(resumed).run.bench
    if bench is None and (live or record or verify):
        raise UsageMistake("--live, --record and --verify need --bench NAME: which machine?")
    if grow:
        if bench is None or not live or record or replay or no_apply:
            raise UsageMistake(
                "--grow restarts a machine at every step: give --bench NAME --live, and neither --record nor --no-apply"
            )
        from harness.cli import grow as grow_command

        asked = grow_command.Asked(bench, assume_free, steal_lock, tuple(fault or ()))
        raise typer.Exit(grow_command.grow(asked, typer.echo))
    settings = Settings(
        bench=bench or BUNDLED_BENCH,
        mode=choose_mode(named=bench is not None, live=live or verify or resumed is not None, replay=replay, record=record),
        apply=True if apply else False if no_apply else None,
        danger=frozenset(danger or ()),
        assume_free=assume_free,
        force_p2p=force_p2p,
        steal_lock=steal_lock,
        stages=tuple(stage or ()),
        suites=tuple(suite or ()),
        faults=tuple(fault or ()),
        report=report,
        tapes=tapes,
        lab_driver=lab_driver,
        waivers=waivers,
        strict_tapes=strict_tapes,
        pseudonyms=pseudonyms,
        verify=verify,
        resume=resumed,
        command=("bringup", *sys.argv[1:]),
    )
    with orderly_ends():
        status = run_and_report(settings)
    raise typer.Exit(status)


@run_app.command()
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, or its id below --report.")],
    reports: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where reports are.")] = Path("reports"),
    form: Annotated[
        str,
        typer.Option("--format", metavar="html|junit|ocp|prometheus|csv|md|qualification", help="Print it in this form instead."),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="With --format: write it there, whole or not at all.")
    ] = None,
) -> None:
    """Render the reports of a run again from its record; of several runs, compare them with the first."""
    from harness.cli.report import compare_runs, print_report, report_again
    from harness.errors import UsageMistake

    if output is not None and not form:
        raise UsageMistake("--output takes one form: give --format too")
    if form:
        status = print_report(runs, reports, form, output)
    else:
        status = compare_runs(runs, reports) if len(runs) > 1 else report_again(runs[0], reports)
    raise typer.Exit(status)


@run_app.command()
def dashboard() -> None:
    """Print a Grafana dashboard for the last runs of many machines, from what --format prometheus writes of each."""
    from harness.report.formats.dashboard import dashboard_text

    typer.echo(dashboard_text(), nl=False)


@run_app.command()
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
