"""The lanes of the modelled machine, in process: what an adapter is to hardware, these are to the model.

open_model ─▶ Machine ─┬─ ModelBmc ── IdracApplication
                       ├─ ModelHost ── agent's workers, dmesg, ...
                       ├─ ModelConsole
                       └─ ModelFabric
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from harness.clock import VirtualClock
from harness.errors import AuthRefused, BenchError, Unreachable, Untrusted, UsageMistake
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts, workers
from harness.lab.model.console import ModelConsole
from harness.lab.model.fabric import ModelFabric
from harness.lab.model.host import ModelHost
from harness.lab.model.machine import Machine
from harness.lab.model.real_workers import RealWorkers, origins
from harness.ports import Effect, HttpAnswer, HttpQuestion, Json, Lanes, OnLine

LATENCY = 0.15
"""Seconds that one request to the BMC takes: an assumption for a controller on a lab network."""

RESTARTED_BEFORE = 1500.0
"""Seconds since the restart of a machine that somebody restarted before: longer than a start takes, and a loop goes round."""

UNAUTHORIZED = 401

_SERVED_PIN = "sha256:" + "c3" * 32
"""The fingerprint that a changed certificate would show."""


def open_model(
    clock: VirtualClock,
    faults: frozenset[str] = frozenset(),
    *,
    password: str | None = None,
    populated: frozenset[str] | None = None,
    delivered: bool = True,
    restarted: bool = False,
    libraries: Path | None = None,
) -> Lanes:
    """Build a machine with ``faults`` switched on, and open its lanes. Nothing is asked yet.

    ``password`` is what the BMC lane logs in with; None for the right one. ``populated`` are the slots with a GPU in them, None for
    all. ``delivered``: the BIOS is as the machine comes; False for one that was brought up before, which is what stages after
    ``bios`` need where they run alone. ``restarted``: it was restarted before, so that a fault of its start shows. ``libraries``: a
    folder with driver libraries on which the real GPU workers run; they know no faults. Raises UsageMistake for a slot that the
    modelled machine does not have, and for such a folder that cannot be used.
    """
    if populated is not None and (unknown := sorted(populated - parts.SLOTS)):
        raise UsageMistake(f"the modelled machine has no slot {unknown[0]!r}; it has {min(parts.SLOTS)} to {max(parts.SLOTS)}")
    real = None if libraries is None else RealWorkers(libraries)
    if real is not None:
        real.check()
        if faults:
            raise UsageMistake(f"real workers answer for a machine without faults: leave {', '.join(sorted(faults))} out")
    machine = Machine(clock, faults, populated=populated, is_delivered=delivered)
    if restarted:
        machine.reset("ForceRestart")
        clock.sleep(RESTARTED_BEFORE)
    return Lanes(
        bmc=ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD if password is None else password),
        host=ModelHost(clock, machine, real),
        console=ModelConsole(clock, machine),
        fabric=ModelFabric(clock, machine),
        facts={"source": "model", "service_tag": parts.SERVICE_TAG, **origins(workers.NAMES, real=real is not None)},
        bmc_user=parts.BMC_USER,
    )


class ModelBmc:
    """A careful client of the simulated iDRAC.

    It logs in once, before the first question that needs it; a refused password is one attempt and every later question repeats the
    refusal without a request. A session that iDRAC has forgotten (it restarted) is opened again for a question that only reads;
    one that changes the machine is not sent a second time.
    """

    def __init__(
        self, clock: VirtualClock, application: IdracApplication, *, password: str, pin: str = parts.CERTIFICATE_PIN
    ) -> None:
        self._clock = clock
        self._application = application
        self._password = password
        self._pin = pin
        self._shown = _SERVED_PIN if "bmc.tls" in application.server.controller.faults else parts.CERTIFICATE_PIN
        self._token = ""
        self._session = ""
        self._refusal: AuthRefused | None = None
        self._is_closed = False

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        """Ask. Raises Untrusted, AuthRefused, Unreachable, or BenchError where no session is to be had."""
        del on_line
        if self._is_closed:
            raise Unreachable(f"{question.key}: this lane was closed")
        if self._shown != self._pin:
            raise Untrusted(f"the BMC shows certificate {self._shown}, the bench pins {self._pin}; nothing was sent")
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        started = self._clock.now()
        if question.path.rstrip("/") == names.ROOT:
            return self._send(question, started)
        if not self._token:
            self._log_in()
        answer = self._send(question, started)
        if answer.status != UNAUTHORIZED:
            return answer
        self._token = self._session = ""
        if question.effect is Effect.ACT:
            raise AuthRefused(f"{question.key}: the session had ended; the request changes the machine, so it was not sent again")
        self._log_in()
        answer = self._send(question, started)
        if answer.status == UNAUTHORIZED:
            self._refusal = AuthRefused(f"{question.key}: refused in a new session")
            raise self._refusal
        return answer

    def close(self) -> None:
        """End the session, if there is one and iDRAC still answers."""
        self._is_closed = True
        if self._session:
            with contextlib.suppress(Unreachable):
                self._request("DELETE", self._session, None)
        self._token = self._session = ""

    def _log_in(self) -> None:
        credentials = {"UserName": parts.BMC_USER, "Password": self._password}
        status, headers, body = self._request("POST", self._application.server.controller.profile.sessions, credentials)
        if status in (UNAUTHORIZED, 403):
            self._refusal = AuthRefused(f"user {parts.BMC_USER!r} was refused: HTTP {status}; one attempt was made")
            raise self._refusal
        if status != 201:
            info = body["error"]["@Message.ExtendedInfo"][0]["MessageId"]
            raise BenchError(f"no session for user {parts.BMC_USER!r}: HTTP {status} ({info})")
        self._token, self._session = headers["x-auth-token"], headers["location"]

    def _send(self, question: HttpQuestion, started: float) -> HttpAnswer:
        status, headers, body = self._request(question.method, question.path, question.body)
        now = self._clock.now()
        return HttpAnswer(status, headers, body, now, now - started)

    def _request(self, method: str, path: str, body: Json) -> tuple[int, dict[str, str], Json]:
        self._clock.sleep(LATENCY)
        headers = {"X-Auth-Token": self._token} if self._token else {}
        payload = b"" if body is None else json.dumps(body).encode()
        status, sent, answer = self._application.handle(method, path, headers, payload)
        return status, {name.lower(): value for name, value in sent.items()}, json.loads(answer) if answer else None
