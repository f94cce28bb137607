"""Run pytest in process, shielded from the working folder and from the user's own plugins."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from harness import locator
from harness.errors import BringupError
from harness.plugin.prepare import prepare
from harness.plugin.run import Run, headline_before
from harness.plugin.settings import Settings
from harness.plugin.wiring import Prepared


class _Quiet:
    """Takes pytest's own reporter away: the run has its own. Errors of collection are kept."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problems.append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_internalerror(self, excrepr: object) -> bool:
        self.problems.append(str(excrepr))
        return True


def launch(settings: Settings) -> tuple[Run, list[str]]:
    """Carry out a run and return it, with what kept it from running, if anything.

    Raises UsageMistake, TapeError or BenchError, before anything was touched, with one line.
    """
    run = prepare(settings)
    suites = [str(locator.suites()), *(str(path.resolve()) for path in settings.suites)]
    arguments = [
        *("-c", str(locator.suites() / "pytest.toml"), "--rootdir", str(locator.suites())),
        *("--confcutdir", str(locator.suites())),
        *("--disable-plugin-autoload", "-p", "harness.plugin"),
        *("--bringup-bench", settings.bench),
        *suites,
    ]
    quiet = _Quiet()
    opened = _open_early(run)
    with _shielded(), _terminated_like_interrupted():
        try:
            pytest.main(arguments, plugins=[Prepared(run), quiet])
        except KeyboardInterrupt:
            run.interrupted = True
        finally:
            run.close()
    return run, quiet.problems + opened


def _open_early(run: Run) -> list[str]:
    """Say what is about to be touched before anything is."""
    run.settings.watcher.begins(headline_before(run), 0)
    return []


@contextmanager
def _shielded() -> Iterator[None]:
    """Take the environment's pytest settings away for a while."""
    names = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end a run the way Ctrl-C does: sessions closed, record closed, hand-over line printed."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


__all__ = ["BringupError", "launch"]
