"""Training with TensorFlow: keras' ResNet-50 (v1) under MirroredStrategy, in this one process, with the same account.

TensorFlow sums gradients within its graph, so there is no all-reduce of our own to check and no log of channels. The copies of the
variables on the GPUs are compared instead, one line a rank.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import sys
import time
from importlib.util import find_spec
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from ..trouble import Trouble
from .observer import Observer
from .options import CPU_BATCH, CPU_RANKS, Options, choose_precision
from .pytorch import driver_version

Line = Dict[str, Any]

STUDY_STEPS = 24
"""Eight leave 93 % of the loss of one fixed batch (seen on a processor), too near to the 90 % that a healthy device goes below."""

_CLASSES = 1000
_SEED = 20260
_GPU_BATCH = 256
_WARM_WINDOWS = 2
_RATE = 0.01
_TYPES = {"fp16": "mixed_float16", "bf16": "mixed_bfloat16", "fp32": "float32"}
_HEX = 16


class Course(NamedTuple):
    """One strategy with its network, and a function that trains it one step and gives the mean loss."""

    strategy: Any
    network: Any
    step: Any


def train(options: Options) -> Iterator[Line]:
    """All lines of a run. Raises Trouble where TensorFlow or a GPU is missing, or what is asked needs another version."""
    if find_spec("tensorflow") is None:
        do = "install tensorflow for it, or name a Python or a container that has it (host.python, host.wrapper in the bench file)"
        raise Trouble("TensorFlow", "there is no module tensorflow in {}".format(sys.executable), do)
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with Observer(wanted=options.device == "cuda") as observer:
        for line in _observed(options, observer):
            yield line
            yield from observer.news()
        yield from observer.close()


def _observed(options: Options, observer: Observer) -> Iterator[Line]:
    import tensorflow as tf

    devices = _devices(tf, options)
    precision = choose_precision(options.precision, _capabilities(tf))
    batch = options.batch or (CPU_BATCH if options.device == "cpu" else _GPU_BATCH)
    compiler = "none" if options.compiler == "none" or options.device == "cpu" else "xla"
    tf.keras.mixed_precision.set_global_policy(_TYPES[precision])
    yield dict(
        {"kind": "hello", "worker": "resnet50", "schema": 1, "framework": "tensorflow", "precision": precision},
        compiler=compiler, batch=batch, size=options.pixels, steps=options.steps, data="synthetic", device=options.device,
        driver=driver_version(), versions={"tensorflow": str(tf.__version__), "python": platform.python_version()},
    )  # fmt: skip
    names = observer.in_order(len(devices))
    observer.meet(dict(enumerate(names)))
    for index, name in enumerate(names):
        found = {"address": name.address, "uuid": name.uuid, "name": devices[index]}
        yield dict({"kind": "gpu", "index": index, "rank": index}, **found)
    chosen = options._replace(batch=batch, compiler=compiler)
    yield from _alone(tf, chosen, devices)
    yield from _together(tf, chosen, devices)


def _alone(tf: Any, options: Options, devices: List[str]) -> Iterator[Line]:
    for index, device in enumerate(devices):
        course = _course(tf, options, [device])
        with _deterministic(tf) as is_deterministic:
            losses = [float(course.step()) for _ in range(STUDY_STEPS)]
        bad_step = next((number for number, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
        weights = _hash(losses, [variable.numpy() for variable in course.network.variables]) if is_deterministic else ""
        rate, _ = _stretch(course, options, 1)
        first, last = (loss if math.isfinite(loss) else None for loss in (losses[0], losses[-1]))
        yield dict(
            {"kind": "solo", "index": index, "rate": round(rate, 2), "hash": weights, "first_loss": first},
            loss=last,
            bad_step=bad_step,
        )
        yield {"kind": "progress", "stage": "solo", "done": index + 1, "of": len(devices)}


def _together(tf: Any, options: Options, devices: List[str]) -> Iterator[Line]:
    course = _course(tf, options, devices)
    for _ in range(_WARM_WINDOWS):
        _stretch(course, options, len(devices))
    for number in range(1, options.windows + 1):
        rate, loss = _stretch(course, options, len(devices))
        yield {"kind": "progress", "stage": "windows", "done": number, "of": options.windows}
        yield {"kind": "window", "number": number, "rate": round(rate, 2), "loss": loss if math.isfinite(loss) else None}
        if not math.isfinite(loss):
            break
    for rank in range(len(devices)):
        copies = [_copy(course.strategy, variable, rank) for variable in course.network.trainable_variables]
        yield {"kind": "rank", "rank": rank, "index": rank, "hash": _hash([], copies), "bad_step": None}
    yield {"kind": "untried", "why": "TensorFlow sums gradients inside its graph: its all-reduce was not checked on its own"}


def _course(tf: Any, options: Options, devices: List[str]) -> Course:
    tf.keras.utils.set_random_seed(_SEED)
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        network = tf.keras.applications.ResNet50(weights=None, input_shape=(options.pixels, options.pixels, 3), classes=_CLASSES)
        optimizer = tf.keras.optimizers.SGD(_RATE, momentum=0.9)
        optimizer.build(network.trainable_variables)
    images = tf.random.stateless_normal((options.batch, options.pixels, options.pixels, 3), (_SEED, 1))
    labels = tf.random.stateless_uniform((options.batch,), (_SEED, 2), 0, _CLASSES, tf.int32)

    @tf.function(jit_compile=options.compiler == "xla")  # type: ignore[untyped-decorator]
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            given = tf.cast(network(images, training=True), tf.float32)
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, given))
        return loss, tape.gradient(loss, network.trainable_variables)

    def replica() -> Any:
        loss, found = gradients()
        optimizer.apply_gradients(zip(found, network.trainable_variables))  # noqa: B905 - older Pythons
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(replica), axis=None)

    return Course(strategy, network, step)


@contextlib.contextmanager
def _deterministic(tf: Any) -> Iterator[bool]:
    """Deterministic operations while it lasts; False where this version cannot switch them on and off (before 2.8)."""
    try:
        from tensorflow.python.framework.config import disable_op_determinism  # there is no public way back

        tf.config.experimental.enable_op_determinism()
    except (ImportError, AttributeError):
        yield False
        return
    try:
        yield True
    finally:
        disable_op_determinism()


def _stretch(course: Course, options: Options, ranks: int) -> Tuple[float, float]:
    """Images/s of all ranks over one window, and the loss at its end; reading the loss waits for the devices."""
    float(course.step())
    start = time.perf_counter()
    for _ in range(options.steps):
        loss = course.step()
    last = float(loss)
    return options.steps * options.batch * ranks / (time.perf_counter() - start), last


def _devices(tf: Any, options: Options) -> List[str]:
    if options.device == "cpu":
        count = options.ranks or CPU_RANKS
        logical = [tf.config.LogicalDeviceConfiguration()] * count
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
        return ["/cpu:{}".format(number) for number in range(count)]
    found = len(tf.config.list_physical_devices("GPU"))
    if not found:
        do = "see what the gpu stage says; --device cpu trains on the processor"
        raise Trouble("GPU", "TensorFlow {} finds none that it can use".format(tf.__version__), do)
    if options.ranks > found:
        raise Trouble("GPU", "{} ranks were asked for, TensorFlow finds {} GPUs".format(options.ranks, found), "")
    return ["/gpu:{}".format(number) for number in range(options.ranks or found)]


def _capabilities(tf: Any) -> List[Tuple[int, int]]:
    details = [tf.config.experimental.get_device_details(device) for device in tf.config.list_physical_devices("GPU")]
    return [found.get("compute_capability", (0, 0)) for found in details]


def _copy(strategy: Any, variable: Any, rank: int) -> Any:
    """One device's copy of a mirrored variable; keras 3 keeps it in ``value``."""
    held = getattr(variable, "_value", variable)
    return strategy.experimental_local_results(held)[rank].numpy()


def _hash(losses: List[float], arrays: List[Any]) -> str:
    digest = hashlib.sha256(repr(losses).encode())
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()[:_HEX]
