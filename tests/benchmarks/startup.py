"""How long the harness takes where people wait for it, as whole processes: median of several runs.

    python tests/benchmarks/startup.py [RUNS]

Figures are wall seconds on the machine at hand. The goals: a whole replay under 2 s on 2 cores, ``--help`` under 0.25 s, and the
inert plugin under 10 ms on top of a pytest without it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {"replay": 2.0, "help": 0.25, "inert plugin": 0.010}


def timed(folder: str, *arguments: str) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, check=False)
    took = time.perf_counter() - start
    if done.returncode != 0:
        shown = (done.stdout + done.stderr).decode()[-2000:]
        raise SystemExit(f"{arguments}: exit status {done.returncode}\n{shown}")
    return took


def measure(runs: int) -> dict[str, float]:
    """Median wall seconds of each, warm; the inert plugin as the median difference of paired runs."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_nothing.py").write_text("def test_nothing(): pass\n")
        replay = ("-m", "harness", "run")
        plain = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-plugin-autoload", "test_nothing.py")
        inert = (*plain[:-1], "-p", "harness.plugin", "test_nothing.py")
        for warm in (replay, plain, inert):
            timed(folder, *warm)
        pairs = [timed(folder, *inert) - timed(folder, *plain) for _ in range(2 * runs)]
        return {
            "replay": statistics.median(timed(folder, *replay) for _ in range(runs)),
            "help": statistics.median(timed(folder, "-m", "harness", "--help") for _ in range(runs)),
            "inert plugin": statistics.median(pairs),
        }


if __name__ == "__main__":
    figures = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
    for name, seconds in figures.items():
        print(f"{name:14} {seconds * 1000:8.1f} ms   goal {GOALS[name] * 1000:.0f} ms")
    print(json.dumps(figures))
