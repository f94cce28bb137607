"""Register a run with pytest: its hooks, its fixtures, its markers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import BringupError
from harness.plugin import collection, fixtures, hooks
from harness.plugin.prepare import prepare
from harness.plugin.run import RUN, Run
from harness.plugin.settings import Settings, choose_mode


class Prepared:
    """A run that was prepared before pytest began, handed over as a plugin."""

    def __init__(self, run: Run) -> None:
        self.run = run


def register_run(config: pytest.Config) -> None:
    """Prepare the run that the options describe and register it. Raises pytest.UsageError with one line."""
    if hasattr(config, "workerinput") or hooks.worker_options(config):
        raise pytest.UsageError("a bench is one machine: -n (pytest-xdist) cannot be used with --bringup-bench")
    handed = next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, Prepared)), None)
    try:
        run = handed.run if handed is not None else prepare(_settings(config))
    except BringupError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[RUN] = run
    for marker in collection.MARKERS:
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(hooks.RunHooks(run, tells=handed is None), "bringup-run")
    config.pluginmanager.register(fixtures, "bringup-fixtures")


def _settings(config: pytest.Config) -> Settings:
    option = config.getoption
    tapes = option("bringup_tapes")
    return Settings(
        bench=option("bringup_bench"),
        mode=choose_mode(
            named=True,
            live=option("bringup_live") or option("bringup_verify"),
            replay=option("bringup_replay"),
            record=option("bringup_record"),
            prefix="--bringup-",
        ),
        apply=option("bringup_apply"),
        danger=frozenset(option("bringup_danger")),
        assume_free=option("bringup_assume_free"),
        lab_driver=Path(option("bringup_lab_driver")) if option("bringup_lab_driver") else None,
        waivers=Path(option("bringup_waivers")) if option("bringup_waivers") else None,
        strict_tapes=option("bringup_strict_tapes"),
        verify=option("bringup_verify"),
        force_p2p=option("bringup_force_p2p"),
        steal_lock=option("bringup_steal_lock"),
        stages=tuple(option("bringup_stage")),
        faults=tuple(option("bringup_fault")),
        report=Path(option("bringup_report")),
        tapes=Path(tapes) if tapes else None,
        command=tuple(sys.argv),
    )
