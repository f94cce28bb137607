"""The simulated iDRAC alone, for any client: a modelled machine without GPUs behind it, served over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from harness.clock import WallClock
from harness.errors import BenchError
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.profile import Profile
from harness.lab.idrac.serve import serve
from harness.lab.model import parts
from harness.lab.model.machine import Machine
from harness.lab.pace import FastClock


@dataclass(frozen=True)
class Standalone:
    """How it is reached; ``machine`` is the one it manages."""

    url: str
    pin: str
    user: str
    machine: Machine


@contextmanager
def stand_alone(
    profile: Profile, faults: frozenset[str] = frozenset(), *, port: int = 0, speed: float = 1.0, password: str = parts.BMC_PASSWORD
) -> Iterator[Standalone]:
    """Serve one iDRAC on loopback until the block ends; ``speed`` is how many seconds of its machine pass in one of ours.
    Sessions live by our own time.

    Raises BenchError where the port is taken, or where the ``lab`` extra is not installed.
    """
    wall = WallClock()
    clock = FastClock(speed, wall)
    machine = Machine(clock, faults, populated=frozenset(), profile=profile, password=password, session_clock=wall)
    with ExitStack() as stack:
        try:
            served = stack.enter_context(serve(IdracApplication(machine), port=port))
        except ImportError as error:
            raise BenchError(f"the simulated iDRAC needs {error.name}: pip install 'bringup-harness[lab]'") from None
        except OSError as error:
            raise BenchError(f"port {port} of 127.0.0.1 is not to be had ({error.strerror or error}); choose another") from None
        yield Standalone(served.url, served.pin, parts.BMC_USER, machine)
