from __future__ import annotations

import pytest

from harness.errors import BenchError, Blame, Blocked, DeviceError
from harness.procedures.stop import Stop, pass_or_raise

ORDER = ("a", "b", "c")


def test_the_named_check_raises_the_stop():
    with pytest.raises(DeviceError, match="broken"):
        pass_or_raise(Stop("b", "broken"), ORDER, "b")
    with pytest.raises(BenchError, match="in use"):
        pass_or_raise(Stop("b", "in use", Blame.BENCH), ORDER, "b")


def test_later_checks_are_blocked_and_earlier_ones_pass():
    stop = Stop("b", "broken")
    pass_or_raise(stop, ORDER, "a")
    with pytest.raises(Blocked, match="BLOCKED by b: broken"):
        pass_or_raise(stop, ORDER, "c")


def test_without_a_stop_everything_passes():
    for check in ORDER:
        pass_or_raise(None, ORDER, check)


def test_a_stop_from_elsewhere_blocks_all():
    with pytest.raises(Blocked):
        pass_or_raise(Stop("z", "elsewhere"), ORDER, "a")
