"""Records of real runs of the model, made by the command line: one for each first screen, a healthy one, one with a single GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

FAULTS = {
    "healthy": "",
    "18-of-20": "pcie.bars",
    "corrupt-pairs": "p2p.integrity.misrouted",
    "slow-training": "resnet50.floor",
    "stuck-job": "bios.job-state",
    "no-boot": "boot.post-progress",
    "wrong-password": "bmc.auth",
    "lost-link": "pcie.chain-link",
    "narrow-uplink": "pcie.uplink-width",
    "one-gpu": "",
}
"""Name of the story -> fault of the model."""


def run_model(name: str, folder: Path, *arguments: str) -> Path:
    """Run the model with the story's fault; the run's folder."""
    bench = ROOT / "fixtures" / "benches" / "model-lqd8360.toml"
    if name == "one-gpu":
        text = bench.read_text().replace('service_tag = "MODEL01"', 'service_tag = "MODEL01"\npopulated = ["jbogA/slot01"]')
        bench = folder / "one.toml"
        bench.write_text(text)
    fault = ["--fault", FAULTS[name]] if FAULTS[name] else []
    command = [sys.executable, "-m", "harness", "run", "--bench", str(bench), "--live", "--apply", *fault, *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "BRINGUP"))}
    done = subprocess.run(
        [*command, "--report", str(folder)],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (folder / "latest").exists(), done.stdout + done.stderr
    return (folder / "latest").resolve()
