"""The folder of one run below the reports, and the link that names the latest."""

from __future__ import annotations

from pathlib import Path

from harness.clock import wall_time
from harness.errors import UsageMistake


def make_folder(reports: Path, bench: str) -> Path:
    """Make a new folder named by time and bench. Raises UsageMistake where nothing can be written."""
    stamp = wall_time().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        folder = reports / f"{stamp}-{bench}{'' if number == 1 else f'-{number}'}"
        try:
            reports.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except OSError as error:
            if isinstance(error, FileExistsError) and reports.is_dir():
                continue
            raise UsageMistake(f"cannot write reports to {reports}: {error.strerror}; name another folder with --report") from None
        _point_latest(reports, folder)
        return folder
    raise UsageMistake(f"cannot find a free name in {reports}; name another folder with --report")


def _point_latest(reports: Path, folder: Path) -> None:
    """Let ``latest`` name the newest run; a file system without links does without."""
    fresh = reports / f".latest-{folder.name}"
    try:
        fresh.symlink_to(folder.name)
        fresh.replace(reports / "latest")
    except OSError:
        fresh.unlink(missing_ok=True)
