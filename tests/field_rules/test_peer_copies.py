"""Under an IOMMU that translates, writes between GPUs are lost or land elsewhere: nothing is copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def measured(folder: Path):
    (record,) = [file for file in (folder / "reports").glob("*/results.jsonl") if not file.parent.is_symlink()]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "measurement"]


@pytest.mark.parametrize("fault", ["pcie.iommu", pytest.param("benign.iommu-identity", marks=pytest.mark.slow)])
def test_nothing_is_copied_under_a_translating_iommu_and_everything_under_an_identity_one(run_on_the_model, cases, tmp_path, fault):
    """Both kernels are started with intel_iommu=on: the domain of each GPU's group counts, not the command line."""
    done = run_on_the_model("--stage", "p2p", "--fault", fault)
    copies = [line for line in measured(tmp_path) if "GB/s" in str(line.get("unit", "")) and line.get("value") is not None]
    if fault == "pcie.iommu":
        assert done.status == 3, done.text
        assert "the IOMMU translates for 20 of 20 GPUs" in done.text
        assert {case["outcome"] for name, case in cases().items() if name.startswith("p2p.")} == {"blocked"}
        assert copies == []
    else:
        assert done.status == 0, done.text
        assert len(copies) >= 380
