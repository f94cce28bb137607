from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.errors import BenchError
from harness.lab.qemu.workplace import Workplace, identify, lives, processes_of, sweep, workplaces


@pytest.fixture
def start():
    """Start a process that looks like a virtual machine of a folder, or like something else that has a file of it open."""
    started = []

    def begun(folder, name="qemu-system-fake"):
        code = "print(flush=True); import time; time.sleep(60)"
        process = subprocess.Popen([name, "-c", code, f"file={folder}/vars.fd"], executable=sys.executable, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield begun
    for process in started:
        process.kill()
        process.communicate()


def test_the_folder_is_the_user_s_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert workplaces() == tmp_path / "bringup-lab"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert workplaces().name == f"bringup-lab-{os.getuid()}"


def test_closing_ends_the_machine_and_takes_its_folder_away(tmp_path, start):
    workplace = Workplace(tmp_path)
    workplace.open()
    machine, editor = start(workplace.folder), start(workplace.folder, "editor")
    assert processes_of(workplace.folder) == (machine.pid,)
    workplace.close()
    assert machine.wait(5) == -9
    assert editor.poll() is None
    assert list(tmp_path.iterdir()) == []
    workplace.close()
    with pytest.raises(BenchError):
        _ = workplace.folder


def test_a_sweep_takes_away_what_a_killed_owner_left_and_nothing_else(tmp_path, start):
    mine = Workplace(tmp_path)
    mine.open()
    abandoned = tmp_path / "machine-abandoned"
    abandoned.mkdir()
    dead = subprocess.Popen(["true"])
    identity = identify(dead.pid) or f"boot {dead.pid} 1"
    dead.wait()
    (abandoned / "owner").write_text(identity)
    living, orphan = start(mine.folder), start(abandoned)
    assert sweep(tmp_path) == (abandoned,)
    assert orphan.wait(5) == -9
    assert living.poll() is None
    assert list(tmp_path.iterdir()) == [mine.folder]
    mine.close()


def test_opening_sweeps_first(tmp_path):
    abandoned = tmp_path / "machine-abandoned"
    abandoned.mkdir()
    (abandoned / "owner").write_text("")
    workplace = Workplace(tmp_path)
    workplace.open()
    assert list(tmp_path.iterdir()) == [workplace.folder]
    workplace.close()


def test_another_process_of_the_same_number_is_not_the_owner():
    identity = identify(os.getpid())
    assert lives(identity)
    boot, pid, started = identity.split()
    assert not lives(f"{boot} {pid} {int(started) - 1}")
    assert not lives(f"another {pid} {started}")
    assert not lives("")
