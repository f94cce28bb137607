"""``pytest suites --bringup-bench B --bringup-replay``: for people who want their own plugins."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness import locator

REVERSE = """
import pytest
@pytest.hookimpl(trylast=True, wrapper=True)
def pytest_collection_modifyitems(items):
    yield
    items.reverse()
"""


def run_pytest(folder: Path, *arguments: str, plugin: str = "", env: dict[str, str] | None = None):
    if plugin:
        (folder / "theirs.py").write_text(plugin)
        arguments = ("-p", "theirs", *arguments)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BRINGUP"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", str(locator.suites()), *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder)} | (env or {}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def cases(folder: Path) -> dict[str, tuple]:
    (run,) = [path for path in (folder / "reports").iterdir() if not path.is_symlink()]
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    return {line["case"]: (line["outcome"], line["blame"]) for line in lines if line["kind"] == "case"}


def values(folder: Path) -> dict[tuple, object]:
    (run,) = [path for path in (folder / "reports").iterdir() if not path.is_symlink()]
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    return {
        (line["case"], line["name"], (line["part"] or {}).get("slot")): line["value"]
        for line in lines
        if line["kind"] == "measurement"
    }


BENCH = ("--bringup-bench", "model-lqd8360")


def test_outcomes_are_those_of_bringup_run(tmp_path, bringup):
    done = run_pytest(tmp_path, *BENCH, "--bringup-replay")
    assert done.returncode == 0, done.stdout[-3000:]
    own = bringup("run")
    assert cases(tmp_path) == {case: (line["outcome"], line["blame"]) for case, line in own.cases.items()}


@pytest.mark.slow
def test_outcomes_agree_on_a_machine_on_fire_too(tmp_path, bringup):
    fault = ("--bringup-fault", "pcie.chain-link")
    done = run_pytest(tmp_path, *BENCH, "--bringup-live", "--bringup-apply", *fault)
    assert done.returncode == 1
    own = bringup("run", "--bench", "model-lqd8360", "--live", "--fault", "pcie.chain-link")
    assert own.status == 1
    assert cases(tmp_path) == {case: (line["outcome"], line["blame"]) for case, line in own.cases.items()}


@pytest.mark.slow
def test_what_somebody_answers_for_is_skipped(tmp_path):
    file = tmp_path / "waivers.toml"
    file.write_text(
        '[[waiver]]\ncheck = "gpu.ecc"\nplatform = "lqd8360"\nreason = "on order"\nticket = "LAB-7"\nowner = "night shift"\n'
        "expires = 2999-01-01\n"
    )
    words = ("--bringup-live", "--bringup-stage", "gpu", "--bringup-fault", "gpu.ecc", "--bringup-waivers", str(file))
    done = run_pytest(tmp_path, *BENCH, *words, "-rs")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "WAIVED by LAB-7 (night shift, until 2999-01-01): on order" in done.stdout
    assert "1 skipped" in done.stdout
    assert Counter(outcome for outcome, _ in cases(tmp_path).values())["waived"] == 1


@pytest.mark.slow
def test_the_other_order_gives_the_same_verdicts_and_values(tmp_path):
    for name in ("ahead", "back"):
        (tmp_path / name).mkdir()
    assert run_pytest(tmp_path / "ahead", *BENCH, "--bringup-replay").returncode == 0
    done = run_pytest(tmp_path / "back", *BENCH, "--bringup-replay", plugin=REVERSE)
    assert done.returncode == 0, done.stdout[-3000:]
    assert cases(tmp_path / "ahead") == cases(tmp_path / "back")
    assert values(tmp_path / "ahead") == values(tmp_path / "back")


@pytest.mark.slow
@pytest.mark.parametrize("test", ["test_every_gpu_trains_at_full_width", "test_values_read_back"])
def test_one_test_by_k_gives_the_verdict_of_the_whole_run(tmp_path, test):
    for name in ("all", "one"):
        (tmp_path / name).mkdir()
    run_pytest(tmp_path / "all", *BENCH, "--bringup-replay")
    collected = run_pytest(tmp_path / "one", *BENCH, "--bringup-replay", "--collect-only", "-q").stdout
    names = [line.split("::")[1].split("[")[0] for line in collected.splitlines() if "::" in line]
    chosen = test if test in names else names[len(names) // 2]
    done = run_pytest(tmp_path / "one", *BENCH, "--bringup-replay", "-k", chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    whole, alone = cases(tmp_path / "all"), cases(tmp_path / "one")
    assert alone
    assert alone.items() <= whole.items()
    assert values(tmp_path / "one").items() <= values(tmp_path / "all").items()


def test_looking_at_the_tests_opens_nothing(tmp_path):
    done = run_pytest(tmp_path, *BENCH, "--bringup-replay", "--collect-only", "-q")
    assert done.returncode == 0
    assert not (tmp_path / "reports").exists()


def test_a_mode_must_be_chosen(tmp_path):
    done = run_pytest(tmp_path, *BENCH)
    assert done.returncode == 4
    assert "--bringup-bench needs --bringup-live" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_without_a_bench_are_refused(tmp_path):
    done = run_pytest(tmp_path, "--bringup-live")
    assert done.returncode == 4
    assert "--bringup-bench NAME" in done.stderr


def test_workers_are_refused_with_one_line(tmp_path):
    done = run_pytest(tmp_path, *BENCH, "--bringup-replay", "-n", "2")
    assert done.returncode == 4
    assert [line for line in done.stderr.splitlines() if "-n (pytest-xdist) cannot be used" in line]


def test_without_a_bench_the_plugin_adds_no_fixture_and_no_marker(tmp_path):
    (tmp_path / "test_theirs.py").write_text("def test_mine(bench): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_theirs.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "fixture 'bench' not found" in done.stdout
    done = subprocess.run([sys.executable, "-m", "pytest", "--markers"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "vital" not in done.stdout


def test_the_inert_plugin_imports_nothing_of_the_harness_but_itself(tmp_path):
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n"
        "def test_mine():\n"
        "    loaded = sorted(name for name in sys.modules if name.split('.')[0] == 'harness')\n"
        "    assert loaded == ['harness', 'harness.plugin']\n"
        "    assert not {'pydantic', 'redfish', 'jinja2', 'typer'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_theirs.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
