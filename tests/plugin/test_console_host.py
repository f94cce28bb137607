"""A host that is reached over its console: the lanes that a run opens for it, and what the bench file may say."""

from __future__ import annotations

import pytest

from harness.bench import load_bench
from harness.clock import WallClock
from harness.devices.console import Console
from harness.devices.host import Host
from harness.errors import ConfigError
from harness.live.local import LocalCommands
from harness.plugin.prepare import prepare
from harness.plugin.reach import _live_lanes
from harness.plugin.settings import Settings

BENCH = """
schema = 1
name = "far"
platform = "lqd8360"
[console]
command = "bash --norc -i"
[host]
via = "console"
"""


@pytest.fixture
def lanes():
    clock = WallClock()
    bench = load_bench(BENCH, "far.toml")
    opened = _live_lanes(bench, None, bench.host_password("far.toml"), clock)
    yield opened, clock
    opened.close()


def test_the_host_is_asked_over_the_console_and_the_console_is_still_heard(lanes):
    opened, clock = lanes
    here = LocalCommands(clock)
    far, near = Host(opened.host, clock), Host(here, clock)
    assert far.boot_id() == near.boot_id()
    assert far.kernel() == near.kernel()
    assert Console(opened.console, clock).drain().data  # the prompt, at least, that the shell was found at
    assert far.boot_id() == near.boot_id()


def test_the_agent_travels_over_the_console_and_reads_the_same(lanes):
    opened, clock = lanes
    far, near = Host(opened.host, clock), Host(LocalCommands(clock), clock)
    said = far.agent("pci", timeout=60)
    assert said
    assert [line["kind"] for line in said] == [line["kind"] for line in near.agent("pci", timeout=60)]


def test_the_host_s_password_is_a_secret_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("FAR_PASSWORD", "correct-horse-9")
    (tmp_path / "far.toml").write_text(BENCH + 'user = "root"\npassword = { env = "FAR_PASSWORD" }\n')
    run = prepare(Settings(bench=str(tmp_path / "far.toml"), mode="live", report=tmp_path / "reports"))
    assert "correct-horse-9" not in run.redactor.text("it was correct-horse-9, they said")


def test_a_missing_host_password_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("FAR_PASSWORD", raising=False)
    (tmp_path / "far.toml").write_text(BENCH + 'user = "root"\npassword = { env = "FAR_PASSWORD" }\n')
    with pytest.raises(ConfigError, match=r"host\.password: the environment variable FAR_PASSWORD is not set"):
        prepare(Settings(bench=str(tmp_path / "far.toml"), mode="live", report=tmp_path / "reports"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BENCH + 'password = { env = "X" }\n', "a password needs the user"),
        (BENCH.replace('[console]\ncommand = "bash --norc -i"\n', ""), "needs a"),
    ],
    ids=["no user", "no console"],
)
def test_a_bench_that_does_not_hold_together_is_refused(text, why):
    with pytest.raises(ConfigError, match=why):
        load_bench(text, "far.toml")
