"""Training steps on one rank: the same network, data and arithmetic alone and together.

study(setup)        a few seeded, deterministic steps on one fixed batch: hash, first and last loss
Trainer             steps as fast as they come
└─ Watch            looks at every loss, one step late on a GPU so that the GPU never waits for the host
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
import time
from typing import Any, ContextManager, Dict, List, NamedTuple, Optional

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from .network import CLASSES, ResNet50

SEED = 20260
STUDY_STEPS = 8

_RATE = 0.01
_MOMENTUM = 0.9
_DECAY = 1e-4
_SCALE = 2.0**10
_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
_HEX = 16


class Setup(NamedTuple):
    """What every rank of a run shares, but for the device."""

    device: Any
    precision: str
    compiler: str
    batch: int
    size: int

    @property
    def on_gpu(self) -> bool:
        """True on CUDA."""
        return bool(self.device.type == "cuda")

    @property
    def layout(self) -> Any:
        """Channels last is what tensor cores want; on a processor it gains nothing and costs the optimizer time."""
        return torch.channels_last if self.on_gpu else torch.contiguous_format


class Study(NamedTuple):
    """What the seeded steps gave; ``bad_step`` is the first whose loss or gradient was not finite."""

    hash: str
    first: Optional[float]
    last: Optional[float]
    bad_step: Optional[int]


class Stretch(NamedTuple):
    """Some steps in a row: images/s of all ranks, this rank's last loss, and whether some rank's was not finite."""

    rate: float
    loss: float
    broken: bool


class Trainer:
    """One network with its data on the device. ``together`` makes it one of several that sum their gradients."""

    def __init__(self, setup: Setup, *, together: bool, seed: int = 0) -> None:
        self.setup = setup
        self.ranks = dist.get_world_size() if together else 1
        self.steps = 0
        self.network = make_network(setup)
        self._net = _prepared(self.network, setup, together=together)
        self.images, self.labels = make_data(setup, seed)
        self._optimizer = torch.optim.SGD(
            self.network.parameters(), _RATE, momentum=_MOMENTUM, weight_decay=_DECAY, fused=_can_fuse()
        )
        self._scaler = torch.amp.GradScaler("cuda", init_scale=_SCALE) if setup.precision == "fp16" else None
        self._watch = Watch(setup, together=together)

    @property
    def bad_step(self) -> Optional[int]:
        """The first step whose loss or gradient was not finite on this very rank, or None."""
        return self._watch.bad_step

    def step(self) -> Any:
        """One step; the loss, still on the device."""
        self.steps += 1
        self._optimizer.zero_grad(set_to_none=True)
        with _autocast(self.setup):
            loss = functional.cross_entropy(self._net(self.images), self.labels)
        if self._scaler is None:
            loss.backward()
            self._optimizer.step()
            return loss.detach()
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return loss.detach()

    def stretch(self, steps: int) -> Stretch:
        """So many steps, in step with the other ranks at both ends; fewer where some rank's loss is not finite."""
        broken, before = False, self.steps
        self._wait()
        start = time.perf_counter()
        loss = torch.zeros(())
        for _ in range(steps):
            loss = self.step()
            broken = self._watch.look(self.steps, loss, self._probe())
            if broken:
                break
        self._wait()
        took = time.perf_counter() - start
        broken = broken or self._watch.look_again()
        return Stretch((self.steps - before) * self.setup.batch * self.ranks / took, float(loss.item()), broken)

    def _probe(self) -> Any:
        """The gradient that comes last, through all layers. With fp16 infinities in it are how the scale is found: no probe."""
        return None if self._scaler is not None else self.network.conv1.weight.grad

    def _wait(self) -> None:
        if self.setup.on_gpu:
            torch.cuda.synchronize(self.setup.device)


class Watch:
    """Whether all losses and gradients were finite: 0 yes, 1 a gradient was not, 2 a loss was not; the highest of all ranks.

    Every rank sees the same at the same step, so all stop after it. A loss tells whose it was; a summed gradient does not.
    """

    def __init__(self, setup: Setup, *, together: bool) -> None:
        self.bad_step: Optional[int] = None
        self._together = together
        self._pending: Optional[List[Any]] = None
        self._on_gpu = setup.on_gpu

    def look(self, step: int, loss: Any, gradient: Any) -> bool:
        """Look at a step; on a GPU at the one before, which is over by now. True where some rank's numbers were not finite."""
        own = 2.0 * (~torch.isfinite(loss)).float()
        if gradient is not None:
            own = torch.maximum(own, (~torch.isfinite(gradient.sum())).float())
        highest = own.clone()
        if self._together:
            dist.all_reduce(highest, op=dist.ReduceOp.MAX)
        both = torch.stack((own, highest))
        if not self._on_gpu:
            return self._judge(step, both)
        late = self.look_again()
        pinned = torch.empty(2, pin_memory=True)
        pinned.copy_(both, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._pending = [step, pinned, event]
        return late

    def look_again(self) -> bool:
        """Look at the step that is still open, if there is one."""
        if self._pending is None:
            return False
        step, pinned, event = self._pending
        self._pending = None
        event.synchronize()
        return self._judge(step, pinned)

    def _judge(self, step: int, both: Any) -> bool:
        own, highest = both.tolist()
        if own and own == highest and self.bad_step is None:
            self.bad_step = step
        return bool(highest)


def study(setup: Setup) -> Study:
    """Train on one fixed batch from a fixed seed, deterministically: like devices with like software give the same bits.

    The loss of such a batch must fall: the network can learn it by heart.
    """
    with _deterministic():
        trainer = Trainer(setup._replace(compiler="none"), together=False)
        losses = []
        for _ in range(STUDY_STEPS):
            losses.append(trainer.stretch(1).loss)
            if trainer.bad_step is not None:
                break
        first, last = (loss if math.isfinite(loss) else None for loss in (losses[0], losses[-1]))
        told = "{!r} {}".format(losses, hash_of(trainer.network.state_dict()))
        return Study(hashlib.sha256(told.encode()).hexdigest()[:_HEX], first, last, trainer.bad_step)


def make_network(setup: Setup) -> ResNet50:
    """The network with the same weights on every device: made on the CPU from the seed."""
    torch.manual_seed(SEED)
    network = ResNet50()
    network.to(device=setup.device, memory_format=setup.layout)
    return network


def make_data(setup: Setup, seed: int) -> Any:
    """One batch of noise and labels, resident on the device."""
    generator = torch.Generator().manual_seed(SEED + seed)
    images = torch.randn(setup.batch, 3, setup.size, setup.size, generator=generator)
    labels = torch.randint(CLASSES, (setup.batch,), generator=generator)
    return images.to(device=setup.device, memory_format=setup.layout), labels.to(setup.device)


def hash_of(state: Dict[str, Any]) -> str:
    """SHA-256 of names and bytes, shortened."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(name.encode())
        digest.update(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))
    return digest.hexdigest()[:_HEX]


def _prepared(network: ResNet50, setup: Setup, *, together: bool) -> Any:
    net = torch.compile(network) if setup.compiler == "inductor" else network
    if not together:
        return net
    devices = [setup.device] if setup.on_gpu else None
    return DistributedDataParallel(net, device_ids=devices, gradient_as_bucket_view=True, static_graph=True)


def _autocast(setup: Setup) -> ContextManager[Any]:
    if setup.precision == "fp32":
        return contextlib.nullcontext()
    made: ContextManager[Any] = torch.autocast(setup.device.type, dtype=_TYPES[setup.precision])
    return made


@contextlib.contextmanager
def _deterministic() -> Any:
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=False)
        torch.backends.cudnn.benchmark = True


def _can_fuse() -> bool:
    """SGD is fused from PyTorch 2.3 on, and on CPUs from 2.4 on."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 4)
