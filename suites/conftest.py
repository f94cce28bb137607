"""The suites need a machine to run on."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Say so in one line where none is named, instead of failing on every fixture."""
    if not config.getoption("bringup_bench", None):
        raise pytest.UsageError("name a bench: --bringup-bench NAME with --bringup-live or --bringup-replay")
