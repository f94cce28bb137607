import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Done:
    """A finished ``bringup`` command and the record it left."""

    status: int
    out: str
    err: str
    folder: Path

    @property
    def run_folder(self) -> Path:
        (folder,) = [path for path in (self.folder / "reports").iterdir() if not path.is_symlink()]
        return folder

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in (self.run_folder / "results.jsonl").read_text().splitlines()]

    @property
    def cases(self) -> dict[str, dict]:
        return {line["case"]: line for line in self.lines if line["kind"] == "case"}

    @property
    def failed(self) -> list[str]:
        return [case for case, line in self.cases.items() if line["outcome"] in ("failed", "error")]


@pytest.fixture
def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BRINGUP"))}


@pytest.fixture
def bringup(tmp_path, clean_environment):
    """Run the command line in an empty folder of its own, as a person would."""
    count = 0

    def run(*arguments: str, env: dict[str, str] | None = None, folder: Path | None = None, prelude: str = "") -> Done:
        nonlocal count
        count += 1
        where = folder or tmp_path / f"run{count}"
        where.mkdir(exist_ok=True)
        start = f"{prelude}\nimport sys\nsys.argv[0] = 'bringup'\nfrom harness.__main__ import main\nmain()"
        done = subprocess.run(
            [sys.executable, "-c", start, *arguments],
            cwd=where,
            env=clean_environment | (env or {}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr, where)

    return run
