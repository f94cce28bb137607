import json
from functools import lru_cache
from pathlib import Path

import pytest

from harness.devices.pcie import parse_snapshot
from harness.lab.model import pcie_host
from harness.lab.model.parts import View
from harness.platform import load_platform


@lru_cache(maxsize=64)
def _snapshot(faults, bios):
    view = View(frozenset(faults), 1, dict(bios), 0.0)
    objects = [json.loads(line) for _, line in pcie_host.answer(view, ())]
    assert objects.pop() == {"kind": "end", "lines": len(objects)}
    return parse_snapshot(objects, pcie_host.kernel_log(view))


@pytest.fixture
def view():
    def make(*faults, boot=1, **bios):
        return View(frozenset(faults), boot, {"MmioAbove4Gb": "Enabled", **bios}, 0.0)

    return make


@pytest.fixture
def snapshot():
    def look(*faults, **bios):
        return _snapshot(faults, tuple({"MmioAbove4Gb": "Enabled", **bios}.items()))

    return look


@pytest.fixture(scope="session")
def lqd8360():
    path = Path(__file__).parents[3] / "fixtures/platforms/lqd8360.toml"
    return load_platform(path.read_text(encoding="utf-8"), str(path))
