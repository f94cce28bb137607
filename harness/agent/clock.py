"""The agent's time: seconds since some moment, and waiting. Nothing else on the machine under test reads a clock."""

import time


def now() -> float:
    """Seconds; only differences mean something."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait."""
    if seconds > 0:
        time.sleep(seconds)
