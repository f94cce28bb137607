import importlib
import warnings

import pytest


@pytest.fixture(scope="session")
def torch():
    """PyTorch, which complains at import where numpy is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(scope="session")
def part(torch):
    """A module of the worker that imports PyTorch, by name."""
    return lambda name: importlib.import_module(f"harness.agent.resnet50.{name}")
