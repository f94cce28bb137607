"""The worker with ranks that something is wrong with.

python _faulty.py FAULT[,FAULT] [ARGUMENT ...]      the worker: what it starts is ``python _faulty.py --rank FAULT``
"""

import os
import signal
import sys

WHERE = 1  # the rank that has the fault
STEP = 5


def nan_together(training, rank):
    step = training.Trainer.step

    def poisoned(trainer):
        if trainer.ranks > 1 and trainer.steps == STEP - 1:
            trainer.images.fill_(float("nan"))
        return step(trainer)

    training.Trainer.step = poisoned


def nan_alone(training, rank):
    step = training.Trainer.step

    def poisoned(trainer):
        if trainer.ranks == 1 and trainer.steps == 2:
            trainer.images.fill_(float("nan"))
        return step(trainer)

    training.Trainer.step = poisoned


def killed(training, rank):
    step = training.Trainer.step

    def dying(trainer):
        if trainer.ranks > 1 and trainer.steps == STEP - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(trainer)

    training.Trainer.step = dying


def flipped(training, rank):
    """One parameter is another at the end."""
    hash_of = rank.hash_of

    def hash_of_flipped(state):
        state["fc.bias"].data[7].add_(1.0)
        return hash_of(state)

    rank.hash_of = hash_of_flipped


def wrong_sums(training, rank):
    """Three places of the sum arrive wrong, with whole numbers that look like any other."""
    dist = rank.wrong_sums.__globals__["dist"]
    all_reduce = dist.all_reduce

    def lossy(tensor, **options):
        all_reduce(tensor, **options)
        if tensor.numel() > 1000:
            tensor[100:103] -= 1.0

    dist.all_reduce = lossy


def different(training, rank):
    """Its arithmetic is off by one bit of one weight after the first step."""
    step = training.Trainer.step

    def off(trainer):
        loss = step(trainer)
        if trainer.ranks == 1:
            trainer.network.fc.bias.data[0].mul_(1.0 + 2.0**-22)
        return loss

    training.Trainer.step = off


def slow(training, rank):
    """Alone it is a twentieth as fast as it is: more than what ranks that share a busy processor differ by."""
    stretch = training.Trainer.stretch

    def late(trainer, steps):
        done = stretch(trainer, steps)
        return done._replace(rate=done.rate / 20) if trainer.ranks == 1 else done

    training.Trainer.stretch = late


def dull(training, rank):
    training._RATE = 0.0


def main():
    if sys.argv[1] == "--rank":
        from harness.agent.resnet50 import rank, training

        for fault in sys.argv[2].split(","):
            if os.environ["RANK"] == str(WHERE):
                globals()[fault](training, rank)
        rank.main()
    from harness.agent.__main__ import main as work
    from harness.agent.resnet50 import crew

    crew.rank_command = lambda: [sys.executable, "-B", __file__, "--rank", sys.argv[1]]
    sys.exit(work(["resnet50", *sys.argv[2:]]))


if __name__ == "__main__":
    main()
