"""The lanes of the modelled machine, in process: what an adapter is to hardware, these are to the model.

open_model ─▶ Machine ─┬─ ModelBmc ── IdracApplication
                       ├─ ModelHost ── agent's workers, dmesg, ...
                       ├─ ModelConsole
                       └─ ModelFabric
"""

from __future__ import annotations

import contextlib
import json

from harness.clock import VirtualClock
from harness.errors import AuthRefused, Unreachable, Untrusted
from harness.lab.idrac import names
from harness.lab.idrac.application import IdracApplication
from harness.lab.model import parts
from harness.lab.model.console import ModelConsole
from harness.lab.model.fabric import ModelFabric
from harness.lab.model.host import ModelHost
from harness.lab.model.machine import Machine
from harness.ports import HttpAnswer, HttpQuestion, Json, Lanes, OnLine

LATENCY = 0.15
"""Seconds that one request to the BMC takes: an assumption for a controller on a lab network."""

_SERVED_PIN = "sha256:" + "c3" * 32
"""The fingerprint that a changed certificate would show."""


def open_model(clock: VirtualClock, faults: frozenset[str] = frozenset(), *, password: str | None = None) -> Lanes:
    """Build a machine as delivered, with ``faults`` switched on, and open its lanes. Nothing is asked yet.

    ``password`` is what the BMC lane logs in with; None for the right one.
    """
    machine = Machine(clock, faults)
    return Lanes(
        bmc=ModelBmc(clock, IdracApplication(machine), password=parts.BMC_PASSWORD if password is None else password),
        host=ModelHost(clock, machine),
        console=ModelConsole(clock, machine),
        fabric=ModelFabric(clock, machine),
        facts={"source": "model", "service_tag": parts.SERVICE_TAG},
    )


class ModelBmc:
    """A careful client of the simulated iDRAC.

    It logs in once, before the first question that needs it; a refused password is one attempt and every later question repeats the
    refusal without a request. A session that iDRAC has forgotten (it restarted) is opened again once.
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

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        """Ask. Raises Untrusted, AuthRefused or Unreachable."""
        del on_line
        if self._shown != self._pin:
            raise Untrusted(f"the BMC shows certificate {self._shown}, the bench pins {self._pin}; nothing was sent")
        started = self._clock.now()
        is_open = question.method == "GET" and question.path.rstrip("/") in ("/redfish", names.ROOT)
        if not is_open and not self._token:
            self._log_in()
        answer = self._send(question, started)
        if answer.status == 401 and not is_open:
            self._log_in()
            answer = self._send(question, started)
        return answer

    def close(self) -> None:
        """End the session, if there is one and iDRAC still answers."""
        if self._session:
            with contextlib.suppress(Unreachable):
                self._request("DELETE", self._session, None)
        self._token = self._session = ""

    def _log_in(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        status, headers, _ = self._request(
            "POST", names.SESSIONS, {"UserName": parts.BMC_USER, "Password": self._password}, is_login=True
        )
        if status in (401, 403):
            self._refusal = AuthRefused(f"{status} for user {parts.BMC_USER}; one attempt was made")
            raise self._refusal
        if status != 201:
            raise Unreachable(f"no session: HTTP {status}")
        self._token, self._session = headers["x-auth-token"], headers["location"]

    def _send(self, question: HttpQuestion, started: float) -> HttpAnswer:
        status, headers, body = self._request(question.method, question.path, question.body)
        now = self._clock.now()
        return HttpAnswer(status, headers, body, now, now - started)

    def _request(self, method: str, path: str, body: Json, *, is_login: bool = False) -> tuple[int, dict[str, str], Json]:
        self._clock.sleep(LATENCY)
        headers = {"X-Auth-Token": self._token} if self._token and not is_login else {}
        payload = b"" if body is None else json.dumps(body).encode()
        status, sent, answer = self._application.handle(method, path, headers, payload)
        return status, {name.lower(): value for name, value in sent.items()}, json.loads(answer) if answer else None
