from __future__ import annotations

import pytest

from harness.clock import VirtualClock
from harness.errors import AuthRefused, DeviceError, RedfishError, Timeout, Unreachable
from harness.procedures.endurance import LONGEST, Endurance


def failing(error):
    def look():
        raise error

    return look


def test_a_loss_is_one_from_the_first_silence_to_the_next_answer():
    clock = VirtualClock()
    endurance = Endurance(clock)
    assert endurance.ask(lambda: 1) == 1
    clock.sleep(5)
    assert endurance.ask(failing(Unreachable("refused"))) is None
    assert endurance.is_lost
    clock.sleep(30)
    assert endurance.ask(failing(Timeout("x", 30, None))) is None
    clock.sleep(10)
    assert endurance.ask(lambda: 2) == 2
    (loss,) = endurance.losses
    assert (loss.since, loss.until, loss.error) == (5.0, 45.0, "refused")
    assert str(loss) == "40 s without an answer (refused)"


def test_a_loss_that_lasts_too_long_is_raised():
    clock = VirtualClock()
    endurance = Endurance(clock)
    endurance.ask(failing(Unreachable("refused")))
    clock.sleep(LONGEST + 1)
    with pytest.raises(Unreachable, match="refused"):
        endurance.ask(failing(Unreachable("refused")))
    assert endurance.losses[0].seconds > LONGEST


def test_a_service_that_is_not_ready_for_long_counts_as_lost():
    endurance = Endurance(VirtualClock())
    assert endurance.ask(failing(RedfishError("GET /x", 400, ["IDRAC.1.6.SWC0700"]))) is None
    assert endurance.ask(failing(RedfishError("GET /x", 503, []))) is None


@pytest.mark.parametrize("error", [AuthRefused("no"), DeviceError("no"), RedfishError("GET /x", 404, ["IDRAC.2.8.SYS403"])])
def test_what_is_no_loss_is_raised_at_once(error):
    with pytest.raises(type(error)):
        Endurance(VirtualClock()).ask(failing(error))
