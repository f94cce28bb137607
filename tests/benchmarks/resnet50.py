"""The worker's training steps against a plain training loop of PyTorch, in one process, in turns, on the processor.

    python tests/benchmarks/resnet50.py [ROUNDS]

The goal: a ratio of images/s of at least 1.0. Both train the same network on the same resident batch with SGD and one thread; the
plain loop keeps PyTorch's defaults.
"""

import json
import statistics
import sys
import time
import warnings

warnings.simplefilter("ignore")  # PyTorch complains at import where numpy is not installed

import torch  # noqa: E402

from harness.agent.resnet50.network import ResNet50  # noqa: E402
from harness.agent.resnet50.training import Setup, Trainer, make_data  # noqa: E402

BATCH, SIZE, STEPS = 4, 64, 4


def plain_loop(images, labels):
    network = ResNet50()
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    images = images.contiguous()

    def train(steps):
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
            loss.item()
        return steps * BATCH / (time.perf_counter() - start)

    return train


def measure(rounds):
    """Median images/s of each, and the median ratio of the rounds, whose two halves follow each other."""
    torch.set_num_threads(1)
    setup = Setup(torch.device("cpu"), "fp32", "none", BATCH, SIZE)
    trainer, plain = Trainer(setup, together=False), plain_loop(*make_data(setup, 0))
    trainer.stretch(2)
    plain(2)
    pairs = [(trainer.stretch(STEPS).rate, plain(STEPS)) for _ in range(rounds)]
    return {
        "worker": statistics.median(ours for ours, _ in pairs),
        "plain": statistics.median(theirs for _, theirs in pairs),
        "ratio": statistics.median(ours / theirs for ours, theirs in pairs),
    }


if __name__ == "__main__":
    figures = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
    print(f"worker {figures['worker']:.1f} images/s, plain loop {figures['plain']:.1f}: ratio {figures['ratio']:.2f}, goal 1.0")
    print(json.dumps(figures))
