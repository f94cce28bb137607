"""The command line: fast help, honest version, one line for every mistake."""

import subprocess
import sys

import pytest

import harness


def bringup(*arguments, cwd=None, prelude=""):
    return subprocess.run(
        [sys.executable, "-c", f"{prelude}\nimport sys\nfrom harness.__main__ import main\nmain()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


COMMANDS = (*([], ["run"], ["agent"], ["bench"], ["bios"], ["bios", "apply"], ["rescue"], ["lab"], ["pcie"], ["tape"], ["report"]),)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_nothing_heavy(command):
    prelude = (
        "import atexit, sys\n"
        "heavy = ('pytest', 'redfish', 'pydantic', 'jinja2', 'requests', 'rich.console')\n"
        "atexit.register(lambda: sys.stderr.write('LOADED ' + ','.join(n for n in heavy if n in sys.modules)))"
    )
    done = bringup(*command, "--help", prelude=prelude)
    assert done.returncode == 0
    assert "Usage:" in done.stdout
    loaded = done.stderr.removeprefix("LOADED ").split(",")
    # typer itself builds the options of one command with pydantic; the top level has none to build
    assert [name for name in loaded if name and not (command and name == "pydantic")] == []


def test_the_version_is_the_package_s():
    done = bringup("--version")
    assert done.stdout == f"bringup-harness {harness.__version__}\n"


def test_the_fault_list_is_one_id_a_line_with_what_must_catch_it():
    from harness.lab.catalogue import catalogue

    done = bringup("lab", "faults")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [fault.id for fault in catalogue()]
    for line, fault in zip(lines, catalogue(), strict=True):
        assert (fault.caught_by or "must fail nothing") in line


def test_a_drafted_bench_is_checked_and_not_overwritten(tmp_path):
    assert bringup("bench", "new", "r640-07", cwd=tmp_path).returncode == 0
    file = tmp_path / "fixtures" / "benches" / "r640-07.toml"
    before = file.read_text()
    again = bringup("bench", "new", "r640-07", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists; --force overwrites it" in again.stderr
    assert file.read_text() == before
    checked = bringup("bench", "check", "r640-07", cwd=tmp_path)
    assert checked.returncode == 2
    *problems, last = checked.stderr.splitlines()
    assert last == f"bringup: {len(problems)} problems"
    assert "BRINGUP_BMC_PASSWORD is not set" in problems[-1]


@pytest.mark.parametrize("name", ["../evil", "a b", ".hidden", "-x"])
def test_a_bench_name_cannot_leave_the_folder(tmp_path, name):
    done = bringup("bench", "new", "--", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.toml"))


def test_a_bench_without_name_or_source_says_what_to_do(tmp_path):
    done = bringup("bench", "new", cwd=tmp_path)
    assert done.returncode == 2
    assert "bringup bench new NAME" in done.stderr


def test_a_run_that_is_not_there_is_one_line(tmp_path):
    done = bringup("report", "20260101-nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no run" in done.stderr


def test_a_mistyped_option_is_told_apart_from_a_failure(tmp_path):
    done = bringup("run", "--bensh", "x", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
