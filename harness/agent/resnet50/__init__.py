"""Train ResNet-50 on every GPU alone and on all together, and say what came of it.

    run(arguments)
    ├─ options      what the arguments ask for
    ├─ pytorch      one process a rank (crew starts and watches them), whose lines become the worker's
    │  └─ rank          what a rank process does: network, training, exchange
    └─ mirrored     TensorFlow: one process, MirroredStrategy

Nothing here imports a framework before it is needed: a missing one is an error line, not a traceback. Python 3.8 is enough.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from .options import read_options


def run(arguments: List[str]) -> Iterator[Dict[str, Any]]:
    """The lines of the worker. Raises Trouble where a framework or device is missing, an option is wrong, or a rank ends early."""
    options = read_options(arguments)
    if options.framework == "tensorflow":
        from .mirrored import train
    else:
        from .pytorch import train
    yield from train(options)
