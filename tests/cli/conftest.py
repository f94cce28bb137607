"""The command as a program of its own: what it writes where, and with which status it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.record.ledger import Ledger

PROGRAM = [sys.executable, "-c", "from harness.__main__ import main; main()"]


@pytest.fixture
def program() -> list[str]:
    """The words that call ``bringup``, before its arguments."""
    return PROGRAM


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Any]:
    """Run a line of bash in which ``"${bringup[@]}"`` is the command; standard error comes back as text."""

    def run(line: str, cwd: Path | None = None) -> Any:
        words = "' '".join(PROGRAM)
        script = f"bringup=('{words}')\n{line}"
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=cwd or tmp_path, check=False, timeout=120)

    return run


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The folder of a run that failed, with nothing rendered yet."""
    ledger = Ledger(tmp_path / "reports" / "r1" / "results.jsonl", str)
    ledger.write("run", schema=1, id="r1", mode="live", source="hardware", stages=["bmc"])
    ledger.write("case", case="bmc.identity", check="bmc.identity", stage="bmc", outcome="failed", blame="product", message="no")
    ledger.write("handover", text="JID_1 is scheduled")
    ledger.write("end", verdict="FAILED", blame="product", exit=1, at=1.0)
    ledger.close()
    return ledger.path.parent
