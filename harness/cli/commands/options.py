"""Options that more than one command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TapesOption = Annotated[
    Path | None, typer.Option("--tapes", metavar="DIR", help="Where tapes are read and written; to replay, also one tape.")
]

StrictTapesOption = Annotated[
    bool, typer.Option("--strict-tapes", help="Refuse a recording that is old, or of firmware that is not wanted any more.")
]

PseudonymsOption = Annotated[
    bool | None,
    typer.Option("--pseudonyms/--real-names", help="What names machine, parts and addresses on a tape; pseudonyms for hardware."),
]

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
