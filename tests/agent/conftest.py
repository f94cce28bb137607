import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.clock import VirtualClock
from harness.devices.host import Host
from harness.ports import CommandAnswer

FAKES = Path(__file__).parent.parent / "fakes"


class SysTree:
    """A /sys and /proc made of files, with the symbolic links that a kernel makes."""

    def __init__(self, root):
        self.root = root
        self.write("proc/sys/kernel/osrelease", "6.1.0-test\n")
        self.write("proc/cmdline", "quiet iommu=pt\n")
        self.write("proc/sys/kernel/random/boot_id", "0c7b8a52-0000-0000-0000-000000000001\n")
        (root / "sys/bus/pci/devices").mkdir(parents=True)
        (root / "sys/bus/pci/slots").mkdir(parents=True)

    def write(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def function(self, *walk, config=b"", **files):
        """Add the function at the end of ``walk`` (host bridge, then addresses); keywords are its files."""
        bdf = walk[-1]
        place = "/".join(("sys/devices", *walk))
        resource = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 13
        content = {
            "vendor": "0x10de\n", "device": "0x1e78\n", "subsystem_vendor": "0x10de\n", "subsystem_device": "0x13d8\n",
            "class": "0x030200\n", "revision": "0xa1\n", "resource": resource, "enable": "1\n", "numa_node": "0\n",
            "local_cpulist": "0-23\n", "power_state": "D0\n", "config": config or bytes(4096), **files,
        }  # fmt: skip
        for name, text in content.items():
            if text is not None:
                self.write(f"{place}/{name}", text)
        self.link(f"sys/bus/pci/devices/{bdf}", f"../../../devices/{'/'.join(walk)}")
        return self.root / place

    def link(self, path, target):
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


@pytest.fixture
def sys_tree(tmp_path):
    return SysTree(tmp_path)


class Machine:
    """A machine of GPUs behind switches, with faults; workers run on it in processes of their own, with the real bindings."""

    def __init__(self, libraries, tree, shape="2x10", faults=""):
        self.tree = tree
        self.switches, self.per_switch = (int(number) for number in shape.split("x"))
        self.count = self.switches * self.per_switch
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(harness.__file__).parent.parent),
            "LD_LIBRARY_PATH": str(libraries),
            "FAKE_GPUS": shape,
            "FAKE_FAULTS": faults,
            "FAKE_STATE": str(tree.root / "state"),
        }
        for gpu in range(self.count):
            walk = self.walk(gpu)
            for depth in range(2, len(walk) + 1):
                if not (tree.root / "sys/bus/pci/devices" / walk[depth - 1]).is_symlink():
                    tree.function(*walk[:depth])

    def address(self, gpu):
        return self.walk(gpu)[-1]

    def upstream(self, gpu):
        """The port that all GPUs below one switch share."""
        return self.walk(gpu)[2]

    def walk(self, gpu):
        """Host bridge, root port, switch up, switch down, GPU: the numbers are those of fake_gpus.h."""
        switch, place = divmod(gpu, self.per_switch)
        base = 0x10 + switch * (self.per_switch + 3)
        return (
            "pci0000:00", f"0000:00:{switch + 1:02x}.0", f"0000:{base:02x}:00.0", f"0000:{base + 1:02x}:{place:02x}.0",
            f"0000:{base + 2 + place:02x}:00.0",
        )  # fmt: skip

    def run(self, *arguments):
        """Exit status, objects, stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "harness.agent", *arguments],
            env=self.environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def lines(self, *arguments):
        """The objects of a run in which nothing broke, without the end line."""
        status, lines, said = self.run(*arguments)
        assert (status, said) == (0, "")
        assert lines[-1] == {"kind": "end", "lines": len(lines) - 1}
        return lines[:-1]

    def options(self, size=1 << 18, patience=2):
        return "--size", str(size), "--patience", str(patience), "--root", str(self.tree.root)

    def p2p(self, *more, size=1 << 18):
        return self.lines("p2p", "--loops", "2", *self.options(size), *more)

    def host(self, *more):
        """A host that runs the agent as it travels: one zip on stdin. ``more`` arguments go to each worker."""
        return Host(Shell(self.environment | {"PYTHONPATH": ""}, more), VirtualClock(), python=sys.executable)


class Shell:
    """A lane that runs commands here, in an environment."""

    def __init__(self, environment, more):
        self.environment = environment
        self.more = more

    def ask(self, question, on_line=None):
        argv = (*question.argv, *self.more) if question.stdin else question.argv
        done = subprocess.run(argv, input=question.stdin, env=self.environment, capture_output=True, timeout=200, check=False)
        for line in done.stdout.decode().splitlines() if on_line else ():
            on_line(line, 0.0)
        return CommandAnswer(done.returncode, done.stdout.decode(), done.stderr.decode(), 0.0, 0.0)

    def close(self):
        pass


@pytest.fixture(scope="session")
def fake_libraries(tmp_path_factory):
    """Folder with a libcuda.so.1 and a libnvidia-ml.so.1 that need no hardware."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here (cc): the fake driver libraries cannot be made")
    folder = tmp_path_factory.mktemp("libraries")
    subprocess.run([sys.executable, str(FAKES / "build.py"), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def machine(fake_libraries, tmp_path):
    """Make a machine of SWITCHESxGPUS with faults."""
    made = []

    def make(shape="2x3", faults=""):
        root = tmp_path / f"machine{len(made)}"
        root.mkdir()
        made.append(Machine(fake_libraries, SysTree(root), shape, faults))
        return made[-1]

    return make
