"""What the workers on the modelled machine print, line by line, with the time of each line.

    nvml, telemetry   nvml.py
    p2p               p2p.py
    resnet50          resnet50.py

The lines have the form that the readers in ``harness.devices`` document; the figures have their sources beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.errors import UsageMistake
from harness.lab.model.cards import ended
from harness.lab.model.nvml import nvml, telemetry
from harness.lab.model.p2p import p2p
from harness.lab.model.parts import View
from harness.lab.model.resnet50 import resnet50

_WORKERS: Mapping[str, Callable[[View, Sequence[str]], Iterable[tuple[float, str]]]] = {
    "nvml": nvml,
    "telemetry": telemetry,
    "p2p": p2p,
    "resnet50": resnet50,
}

NAMES = tuple(_WORKERS)


def answer(worker: str, arguments: Sequence[str], view: View) -> Iterable[tuple[float, str]]:
    """The lines that ``python -m harness.agent WORKER ARGUMENTS`` prints: (seconds since its start, one JSON object).

    The last line is the end line. Raises UsageMistake for a worker that the model does not have.
    """
    if worker not in _WORKERS:
        raise UsageMistake(f"the modelled machine has no worker {worker!r}; it has {', '.join(_WORKERS)}")
    return ended(_WORKERS[worker](view, arguments))
