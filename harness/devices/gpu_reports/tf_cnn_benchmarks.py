"""A log of ``tf_cnn_benchmarks``: identity, devices, a line every ten steps, a total.

    Batch size:  4096 global / 512 per device
    Step	Img/sec	total_loss
    10	images/sec: 7977.6 +/- 7.2 (jitter = 33.1)	7.621
    total images/sec: 7933.73

Each line is the mean over all steps so far (tensorflow/benchmarks, benchmark_cnn.py). The log tells XLA by the line that the
first compiled cluster leaves, and nowhere the precision: that is taken from a command line in it, or from the file's path
(``.../syn-replicated-fp16-8gpus/...``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from harness.devices.gpu_reports.facts import Device, Pair, Reading, Step, Tool, Training, plural

_STEP = re.compile(r"^(\d{1,7})\timages/sec: (\S{1,20}) \+/- \S+ \(jitter = \S+\)\t(\S{1,20})", re.MULTILINE)
_TOTAL = re.compile(r"^total images/sec: ([\d.]{1,20})", re.MULTILINE)
_DEVICE = re.compile(
    r"device:GPU:(\d{1,3}) with [^\n>]{0,80}-> physical GPU \(device: \d+, name: ([^,\n]+), pci bus id: ([0-9a-f:.]+)"
)
_PRECISION = re.compile(r"(?<![a-z0-9])(fp16|fp32|amp)(?![a-z0-9])")
_CONNECTED = re.compile(r"\] ?(\d{1,3}): +((?:[NY] ?)+)\s*$", re.MULTILINE)


def looks_like(text: str) -> bool:
    """True where the text has lines of this program."""
    return "images/sec" in text or ("TensorFlow: " in text and "Num batches:" in text)


def parse(text: str, source: str) -> Reading:
    """Read one run; one that was cut off has no total."""
    head = text[:4_000_000]
    devices = tuple({int(index): Device(int(index), name, address) for index, name, address in _DEVICE.findall(head)}.values())
    listed = re.search(r"^Devices: +\[([^\]\n]*)\]", head, re.MULTILINE)
    count = listed[1].count("gpu:") if listed else len(devices)
    steps = tuple(_steps(text))
    total = _TOTAL.search(text)
    if not steps and not total and not listed:
        return Reading(Tool.TF_CNN_BENCHMARKS, source)
    training = Training(
        model=_field(head, "Model"),
        version=_field(head, "TensorFlow"),
        precision=_precision(head, source),
        compiler="xla" if "Compiled cluster using XLA" in text else "none",
        batch=_batch(head, count),
        data="synthetic" if "(synthetic)" in _field(head, "Dataset") else _field(head, "Dataset"),
        reduce=_field(head, "AllReduce"),
        count=count,
        steps=steps,
        total=_finite(total[1]) if total else None,
        access=dict(_connections(head)),
    )
    summary = f"{training.model or 'a model'} on {plural(count, 'GPU')}, {steps[-1].number if steps else 0} steps"
    return Reading(Tool.TF_CNN_BENCHMARKS, source, summary, devices=devices, training=training)


def _steps(text: str) -> Iterator[Step]:
    last = 0
    for number, rate, loss in _STEP.findall(text):
        value = _finite(rate)
        if value is not None and value > 0 and int(number) > last:
            last = int(number)
            yield Step(last, value, _finite(loss))


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}: +(\S[^\n]{{0,100}})$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def _batch(text: str, count: int) -> int:
    """Images a GPU and step."""
    if own := re.search(r"^\s*(\d{1,7}) per device$", text, re.MULTILINE):
        return int(own[1])
    whole = re.search(r"^Batch size: +(\d{1,9}) global$", text, re.MULTILINE)
    return int(whole[1]) // count if whole and count else 0


def _precision(text: str, source: str) -> str:
    if re.search(r"--use_fp16(?:=True)?\b(?!=)", text):
        return "fp16"
    told = _PRECISION.findall(source.lower())
    return told[-1] if told else ""


def _connections(text: str) -> Iterator[tuple[Pair, bool]]:
    """The matrix of connected GPUs that TensorFlow logs; of several the last counts."""
    for row, cells in _CONNECTED.findall(text):
        for column, cell in enumerate(cells.split()):
            if column != int(row):
                yield (int(row), column), cell == "Y"


def _finite(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
