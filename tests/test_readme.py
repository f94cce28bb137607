"""Every command that the README shows works as written; those that a person is promised stand there word for word."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import locator

README = locator.shipped() / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(), re.DOTALL) if README.is_file() else []
SHELL = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
SHOWN = [line.split("#")[0].removeprefix("$ ").strip() for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]

pytestmark = pytest.mark.skipif(not README.is_file(), reason="the README is not beside the installed package")


def test_the_two_promises_stand_word_for_word():
    assert "pip install . && bringup run" in SHELL
    assert "pip install -e '.[test]' && pytest" in SHELL


def test_ci_keeps_both_promises():
    script = (locator.shipped() / ".ci" / "run").read_text()
    assert "pip install -q -e '.[test]'\npytest\n" in script
    assert '(cd "$work/empty" && "$work/user/bin/bringup" run)' in script


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    """A folder to work in and a ``bringup`` on the path, as a person has them who begins."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "bin").mkdir()
    script = folder / "bin" / "bringup"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m harness "$@"\n')
    script.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BRINGUP"))}
    environment |= {"PATH": f"{folder / 'bin'}:{environment['PATH']}"}
    return folder, environment


def run(person, command: str) -> subprocess.CompletedProcess[str]:
    folder, environment = person
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_every_command_does_what_the_readme_says_one_after_the_other(person):
    for command in (line for line in SHELL if line.startswith("bringup ")):
        done = run(person, command)
        allowed = {0, 3} if "--bench local --live" in command else {0}
        assert done.returncode in allowed, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr


def test_the_example_of_a_fault_fails_as_described(person):
    command, rescue = [line for line in SHOWN if "--fault" in line and "virtual-r640" not in line]
    done = run(person, command)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "pcie.chain-link" in done.stdout
    done = run(person, rescue)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it started bare" in done.stdout


def test_the_example_of_a_baseline_is_understood():
    from harness.config import load
    from harness.platform import Platform

    (table,) = [text for kind, text in BLOCKS if kind == "toml" and "[[firmware]]" in text]
    (entry,) = load(Platform, f'schema = 1\nname = "p"\n{table}', "README.md").firmware
    assert (entry.component, entry.deny) == ("25227", ("7.00.00.00",))


def test_the_example_of_a_waiver_is_understood():
    from harness.waivers import load_waivers

    (text,) = [text for kind, text in BLOCKS if kind == "toml" and "[[waiver]]" in text]
    (waiver,) = load_waivers(text, "README.md").entries
    assert (waiver.ticket, waiver.expires.year) == ("LAB-123", 2027)


@pytest.mark.slow
def test_the_bundled_tape_can_be_recorded_as_shown(person):
    command, _ = [line for line in SHOWN if "--record" in line]
    done = run(person, command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (person[0] / "fixtures" / "tapes" / "model-lqd8360" / "tape.toml").is_file()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_bundled_tape_can_be_recorded_with_the_real_workers_as_shown(person):
    (build,) = [line for line in SHOWN if "build.py" in line]
    _, record = [line for line in SHOWN if "--record" in line]
    for command in (build.replace("python tests", f"{shlex.quote(sys.executable)} {README.parent}/tests"), record):
        done = run(person, command)
        assert done.returncode == 0, done.stdout + done.stderr
    header = (person[0] / "fixtures" / "tapes" / "model-lqd8360" / "tape.toml").read_text()
    assert '"agent p2p" = "the real worker with nvidia-ml-py' in header


def test_the_example_check_runs(person):
    (source,) = [text for kind, text in BLOCKS if kind == "python"]
    checks = person[0] / "my_checks"
    checks.mkdir()
    (checks / "test_vbios.py").write_text(source)
    (command,) = [line for line in SHOWN if "--suite" in line]
    done = run(person, command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_bench_is_understood(person):
    from harness.bench import load_bench

    bench, ssh, console, fabric = [
        text for kind, text in BLOCKS if kind == "toml" and not text.startswith(("[[firmware]]", "[[waiver]]"))
    ]
    bench = bench.replace("sha256:...", "sha256:" + "ab" * 32)
    assert load_bench(bench, "README.md").bmc is not None
    reached = load_bench(bench + ssh, "README.md").host
    assert reached is not None
    assert reached.via == "ssh"
    both = load_bench(bench + console, "README.md")
    assert both.console is not None
    assert both.host is not None
    asked = load_bench(bench + fabric, "README.md").fabric
    assert asked is not None
    assert asked.machine == "r640-07"


def test_the_exit_statuses_are_those_of_the_code():
    from harness.record.verdict import EXITS

    rows = re.findall(r"^\| (\d+) \| ([A-Z ,]*) \|", README.read_text(), re.MULTILINE)
    told = {word.strip(): int(status) for status, words in rows for word in words.split(",") if word.strip()}
    assert told == {word: status for word, status in EXITS.items() if word in told}
    assert set(EXITS) <= set(told)


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"^    (\w+)/ ", README.read_text(), re.MULTILINE)) if README.is_file() else [])
)
def test_a_folder_that_is_named_is_there(path):
    assert (Path(README).parent / path).is_dir()
