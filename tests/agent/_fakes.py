"""The fake driver libraries, compiled once a run, and workers started on them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness

SOURCES = Path(__file__).parent.parent / "fakes"
LIBRARIES = {"libcuda.so.1": "fake_libcuda.c", "libnvidia-ml.so.1": "fake_libnvidia_ml.c"}
COMPILER = shutil.which("cc")


def compile_fakes(folder):
    for name, source in LIBRARIES.items():
        command = [COMPILER, "-O2", "-fPIC", "-shared", "-o", str(folder / name), str(SOURCES / source)]
        subprocess.run(command, check=True, capture_output=True)
    return folder


class Machine:
    """A machine of GPUs behind switches, with the faults that are given; the workers run on it in a process of their own."""

    def __init__(self, libraries, tree, state, shape="2x10", faults=""):
        self.libraries = libraries
        self.tree = tree
        self.shape = shape
        self.switches, self.per_switch = (int(number) for number in shape.split("x"))
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(harness.__file__).parent.parent),
            "LD_LIBRARY_PATH": str(libraries),
            "FAKE_GPUS": shape,
            "FAKE_FAULTS": faults,
            "FAKE_STATE": str(state),
        }
        self._grow()

    @property
    def count(self):
        return self.switches * self.per_switch

    def address(self, gpu):
        return f"0000:{0x12 + gpu // self.per_switch * (self.per_switch + 3) + gpu % self.per_switch:02x}:00.0"

    def upstream(self, switch):
        return f"0000:{0x10 + switch * (self.per_switch + 3):02x}:00.0"

    def group(self, gpu):
        return self.upstream(gpu // self.per_switch)

    def walk(self, gpu):
        switch = gpu // self.per_switch
        base = 0x10 + switch * (self.per_switch + 3)
        down = f"0000:{base + 1:02x}:{gpu % self.per_switch:02x}.0"
        return "pci0000:00", f"0000:00:{switch + 1:02x}.0", self.upstream(switch), down, self.address(gpu)

    def _grow(self):
        for gpu in range(self.count):
            walk = self.walk(gpu)
            for depth in range(2, len(walk) + 1):
                if not (self.tree.root / "sys/bus/pci/devices" / walk[depth - 1]).is_symlink():
                    self.tree.function(*walk[:depth])

    def run(self, *arguments, timeout=100):
        """Exit status, objects, stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "harness.agent", *arguments],
            env=self.environment, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def lines(self, *arguments):
        """The objects of a run in which nothing broke."""
        status, lines, said = self.run(*arguments)
        assert (status, said) == (0, "")
        assert lines[-1] == {"kind": "end", "lines": len(lines) - 1}
        return lines[:-1]

    def p2p(self, *more, size="1048576", loops="2", patience="20"):
        return self.lines("p2p", "--size", size, "--loops", loops, "--patience", patience, "--root", str(self.tree.root), *more)


def every(lines, kind):
    return [line for line in lines if line["kind"] == kind]
