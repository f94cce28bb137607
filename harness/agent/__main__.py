"""Run one worker and print what it says as JSON lines.

    python3 -m harness.agent WORKER [ARGUMENT ...]

    {"kind": ...}                                 what the worker reads, one object a line, printed as it comes
    {"kind": "error", "what", "why", "do"}        trouble that the worker foresaw (a missing library): exit status 0
    {"kind": "end", "lines": N}                   always last; N objects stood before it

Exit status 2: no such worker, or wrong arguments. 3: the worker cannot be loaded here. 1: it broke in a way nobody foresaw
(traceback on stderr). A worker is a module beside this one with ``run(arguments)``, an iterator of objects. Python 3.6 is enough.
"""

import importlib
import json
import sys
import traceback
from typing import Any, Dict, List, Optional

from .trouble import Trouble

NOT_LOADED = 3
WORKERS = ("pci", "nvml", "telemetry", "p2p", "resnet50")


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the worker that the arguments name and return the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] not in WORKERS:
        wanted = repr(given[0]) if given else "nothing"
        return _refuse(Trouble("worker", "no worker is called " + wanted, "name one of " + ", ".join(WORKERS)))
    try:
        worker = importlib.import_module("." + given[0], __package__)
    except ImportError as error:
        return _refuse(Trouble("worker " + given[0], "it cannot be loaded here: {}".format(error)), NOT_LOADED)
    return _run(worker, given[1:])


def _run(worker: Any, arguments: List[str]) -> int:
    lines = 0
    status = 0
    try:
        for line in worker.run(arguments):
            _print(line)
            lines += 1
    except Trouble as trouble:
        _print(trouble.line())
        lines += 1
    except Exception as error:
        _print(Trouble("worker", "{}: {}".format(type(error).__name__, error), "report this as a fault of the harness").line())
        lines += 1
        traceback.print_exc()
        status = 1
    _print({"kind": "end", "lines": lines})
    return status


def _refuse(trouble: Trouble, status: int = 2) -> int:
    _print(trouble.line())
    _print({"kind": "end", "lines": 1})
    sys.stderr.write("{}\n".format(trouble))
    return status


def _print(line: Dict[str, Any]) -> None:
    print(json.dumps(line, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    sys.exit(main())
