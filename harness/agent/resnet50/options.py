"""What the arguments of the worker ask for, and what is chosen where they say nothing.

    --framework pytorch|tensorflow   --device cuda|cpu       --ranks N (all GPUs; two on cpu)
    --windows N (12)  --steps N (10 a window)                --batch N  --size PIXELS (224; 64 on cpu)
    --precision auto|fp32|fp16|bf16                          --compiler auto|none|inductor|xla

Auto, on GPUs: bf16 from compute capability 8.0 on, else fp16 where tensor cores are (7.0), else fp32. torch says that it supports
bf16 on older GPUs too, by slow emulation, so it is not asked.
"""

from __future__ import annotations

import argparse
from typing import Any, List, NamedTuple, NoReturn, Tuple

from ..trouble import Trouble

CPU_RANKS = 2
CPU_BATCH = 4
CPU_SIZE = 64
GPU_SIZE = 224

_BATCHES = ((30, 256), (15, 128), (0, 64))
"""GiB of the smallest GPU, and the batch that its memory holds at 224 pixels with some to spare."""


class Options(NamedTuple):
    """The arguments, read; 0 where the choice is left to the worker."""

    framework: str
    device: str
    ranks: int
    windows: int
    steps: int
    batch: int
    size: int
    precision: str
    compiler: str

    @property
    def pixels(self) -> int:
        """Side of the images."""
        return self.size or (CPU_SIZE if self.device == "cpu" else GPU_SIZE)


def read_options(arguments: List[str]) -> Options:
    """Read the arguments. Raises Trouble for what cannot be meant."""
    parser = _Parser(prog="resnet50", add_help=False)
    parser.add_argument("--framework", choices=("pytorch", "tensorflow"), default="pytorch")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--precision", choices=("auto", "fp32", "fp16", "bf16"), default="auto")
    parser.add_argument("--compiler", choices=("auto", "none", "inductor", "xla"), default="auto")
    options = Options(**vars(parser.parse_args(arguments)))
    _refuse_the_meaningless(options)
    return options


def choose_precision(asked: str, capabilities: List[Tuple[int, int]]) -> str:
    """The precision that all these GPUs (by compute capability) are fast in; no GPU means fp32."""
    if asked != "auto":
        return asked
    weakest = min(capabilities, default=(0, 0))
    return "bf16" if weakest >= (8, 0) else "fp16" if weakest >= (7, 0) else "fp32"


def choose_batch(options: Options, memories: List[int]) -> int:
    """Images a step and GPU, by the bytes of memory of each."""
    if options.batch:
        return options.batch
    if options.device == "cpu":
        return CPU_BATCH
    smallest = min(memories) / 2**30
    return next(batch for gib, batch in _BATCHES if smallest >= gib)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Trouble("resnet50", message, "see the head of harness/agent/resnet50/options.py")


def _refuse_the_meaningless(options: Options) -> None:
    smallest: List[Tuple[str, Any, int]] = [("ranks", options.ranks, 0), ("windows", options.windows, 1)]
    smallest += [("steps", options.steps, 1), ("batch", options.batch, 0), ("size", options.size, 0)]
    for name, value, least in smallest:
        if value < least:
            raise Trouble("resnet50", "--{} {} cannot be meant".format(name, value), "give {} or more".format(max(1, least)))
    if options.size and options.size < 32:
        raise Trouble("resnet50", "--size {}: five halvings leave nothing of such an image".format(options.size), "give 32 or more")
    if options.batch == 1 and options.pixels < 64:
        raise Trouble("resnet50", "one image of {} pixels leaves one value a channel".format(options.pixels), "give --batch 2")
    if options.device == "cpu" and options.precision == "fp16":
        raise Trouble("resnet50", "fp16 is for GPUs", "give --precision fp32 or bf16")
    if options.compiler == "xla" and options.framework == "pytorch":
        raise Trouble("resnet50", "PyTorch is compiled with inductor", "give --compiler inductor or none")
    if options.compiler == "inductor" and options.framework == "tensorflow":
        raise Trouble("resnet50", "TensorFlow is compiled with xla", "give --compiler xla or none")
