import ast
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import harness.agent
from harness.devices.payload import NOT_STARTED, bootstrap, build_payload

AGENT = Path(harness.agent.__file__).parent
PLAIN = (
    "__init__.py", "__main__.py", "clock.py", "nvml.py", "nvml_library.py", "pci.py", "telemetry.py", "tree.py", "trouble.py",
)  # fmt: skip


def python36():
    """An interpreter of the oldest version that the agent must run on, if this machine has one."""
    found = [*Path.home().glob(".pyenv/versions/3.6*/bin/python3.6"), shutil.which("python3.6")]
    for path in filter(None, found):
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(path)
    return None


PYTHON36 = python36()


def start(*arguments, payload=None, program=None, python=sys.executable, **options):
    payload = build_payload() if payload is None else payload
    program = bootstrap(build_payload()) if program is None else program
    return subprocess.run([python, "-c", program, *arguments], input=payload, capture_output=True, check=False, **options)


def test_the_payload_is_the_same_bytes_every_time(tmp_path, monkeypatch):
    first = build_payload()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert build_payload() == first


def test_the_payload_holds_the_agent_and_nothing_else_of_the_harness():
    names = zipfile.ZipFile(io.BytesIO(build_payload())).namelist()
    sources = {f"agent/{file.relative_to(AGENT)}" for file in AGENT.rglob("*.py")}
    assert set(names) == sources | {"__main__.py", "pynvml.py"}
    assert names == sorted(names)


def test_the_payload_runs_where_nothing_is_installed(tmp_path):
    done = start("pci", "--root", str(tmp_path), cwd=tmp_path, env={"PATH": os.environ["PATH"]})
    assert done.stderr == b""
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == b'{"kind":"end","lines":2}'


def test_the_exit_status_is_the_agents():
    assert start("gpio").returncode == 2


def test_nothing_is_left_behind(tmp_path):
    before = sorted(Path("/tmp").glob("*agent*"))
    done = start("pci", "--root", str(tmp_path), env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert sorted(Path("/tmp").glob("*agent*")) == before


def test_it_runs_from_a_nameless_file_where_memory_files_are_missing(tmp_path):
    program = "import os\nos.__dict__.pop('memfd_create', None)\n" + bootstrap(build_payload())
    done = start("pci", "--root", str(tmp_path), program=program, env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_modules_in_the_working_folder_are_not_picked_up(tmp_path):
    for name in ("hashlib", "runpy", "json", "agent", "argparse"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('picked up')")
    done = start("pci", "--root", str(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "nothing came on stdin (a container needs `docker exec -i`)"),
        (build_payload()[:-100], "its checksum is wrong after"),
        (build_payload() + b"\n", "its checksum is wrong after"),
    ],
)
def test_a_payload_that_did_not_arrive_whole_is_not_run(payload, why):
    done = start("pci", payload=payload)
    assert done.returncode == NOT_STARTED
    assert done.stdout == b""
    assert why in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_the_bootstrap_is_one_line_as_a_serial_console_wants_it():
    program = bootstrap(build_payload())
    assert "\n" not in program
    assert len(program) < 1500


def test_an_old_python_is_refused_in_words():
    program = "import sys\nsys.version_info = (2, 7, 18)\n" + bootstrap(build_payload())
    done = start("pci", program=program)
    assert done.returncode == NOT_STARTED
    assert b"the agent needs Python 3.6 or later" in done.stderr


@pytest.mark.skipif(PYTHON36 is None, reason="no Python 3.6 here: install one (pyenv install 3.6) to run the agent on it")
def test_the_payload_runs_on_python_3_6(tmp_path):
    done = start("pci", "--root", str(tmp_path), python=PYTHON36, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'"python":"3.6.' in done.stdout


@pytest.mark.parametrize("name", PLAIN)
def test_the_sources_are_python_3_6_and_need_only_its_library(name):
    tree = ast.parse((AGENT / name).read_text(), feature_version=(3, 6))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    bundled = {"pynvml"}
    assert imported <= bundled | {
        "argparse", "contextlib", "importlib", "json", "os", "platform", "re", "sys", "time", "traceback", "types", "typing",
    }  # fmt: skip
