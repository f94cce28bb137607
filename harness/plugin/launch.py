"""Run pytest in process, shielded from the working folder and from the user's own plugins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness import locator
from harness.errors import UsageMistake
from harness.plugin.collection import OWN
from harness.plugin.prepare import prepare
from harness.plugin.resumption import look, read_resumable, serials_of, weigh
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
    if settings.resume is not None:
        resume(run, settings.resume)
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


def resume(run: Run, folder: Path) -> None:
    """Go on with a run that was cut off: look at the machine, and leave out the stages that still hold.

    Raises BringupError where that run cannot be gone on with; nothing is written then.
    """
    record = read_resumable(folder.resolve())  # reports/latest will be another run in a moment
    if record.run.bench != run.bench.name:
        raise UsageMistake(f"{folder}: this run was made on bench {record.run.bench!r}, not on {run.bench.name!r}")
    if run.bench.lab is not None:
        raise UsageMistake(f"{folder}: the simulated machine of bench {run.bench.name} ended with that run; run it again")
    run.settings = replace(run.settings, stages=record.run.stages or (OWN,))  # none named is all of them
    with ExitStack() as held:
        lanes = run.open_lanes(held)
        held.callback(lanes.close)
        now = look(lanes, run.host_on(lanes), run.bench, run.slots, run.clock, serials=bool(serials_of(record)))
    changed = [name for name in ("bench", "platform", "waivers") if record.run.checksums.get(name) != run.checksums.get(name)]
    run.resumption = weigh(record, now, changed, today=None if run.waiving is None else run.waiving.today)


@contextmanager
def _shielded() -> Iterator[None]:
    """Take the environment's pytest settings away for a while."""
    names = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
