"""Run pytest in process, shielded from the working folder and from the user's own plugins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import locator
from harness.errors import UsageMistake
from harness.plugin.prepare import prepare
from harness.plugin.run import Run
from harness.plugin.settings import Settings
from harness.plugin.signals import orderly_ends
from harness.plugin.wiring import Prepared


class _Quiet:
    """Takes pytest's own reporter away: the run has its own watcher."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)

    def pytest_internalerror(self) -> bool:
        """Keep pytest from printing what the record says anyway."""
        return True


def launch(settings: Settings) -> Run:
    """Carry out a run and return it, closed and concluded.

    Raises UsageMistake, TapeError or BenchError, with one line and nothing written, when the run could not begin.
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
    with _shielded(), orderly_ends():
        try:
            pytest.main(arguments, plugins=[Prepared(run), _Quiet()])
        except KeyboardInterrupt:
            run.interrupted = True
        finally:
            run.close()
    if run.refusal is not None:
        raise run.refusal
    if run.problems:
        more = f" (and {len(run.problems) - 1} more)" if len(run.problems) > 1 else ""
        raise UsageMistake(run.problems[0] + more)
    return run


@contextmanager
def _shielded() -> Iterator[None]:
    """Take the environment's pytest settings away for a while."""
    names = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
