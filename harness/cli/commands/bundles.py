"""``bringup bundle``: a run as one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

bundle_app = typer.Typer()


@bundle_app.command()
def bundle(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its id below --report.")],
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The archive; RUN.tar.gz here if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    reports: Annotated[Path, typer.Option("--report", metavar="DIR", help="Where reports are.")] = Path("reports"),
) -> None:
    """Pack a run into one archive, redacted once more, with a list of checksums: what to send to somebody who was not there."""
    from harness.cli.bundle import bundle as pack
    from harness.cli.report import find_run

    folder = find_run(run_folder, reports)
    packed = pack(folder, output or Path(f"{folder.resolve().name}.tar.gz"), force=force)
    typer.echo(f"wrote {packed.file}: {packed.count} files")
    for name, why in packed.left_out:
        typer.echo(f"left out {name}: {why}")
