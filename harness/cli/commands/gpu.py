"""``bringup gpu``: judge results of GPU tests that people already have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

gpu_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Judge results of GPU tests that people already have.")


@gpu_app.callback()
def gpu() -> None:
    """Judge results of GPU tests that people already have."""


@gpu_app.command("analyze")
def gpu_analyze(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="p2pBandwidthLatencyTest, nvbandwidth, nccl-tests, tf_cnn_benchmarks, topo -m and -p2p, DCGM diag, "
            "nvidia-smi -q -x, SuperBench, logs; of one machine; also packed.",
        ),
    ],
    platform: Annotated[str | None, typer.Option("--platform", metavar="NAME", help="What the machine should be.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what results of GPU tests show, by the rules of the stages gpu, p2p and resnet50. Exit status 1 for a fault."""
    from harness.cli import gpu as gpu_command

    analysis = gpu_command.analyse_files(files, platform)
    for line in [gpu_command.as_json(analysis)] if as_json else gpu_command.as_text(analysis):
        typer.echo(line)
    raise typer.Exit(1 if analysis.failed else 0)
