"""The simulated iDRAC, served over TLS to clients that nobody of this project wrote."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.lab.idrac.alone import Standalone, stand_alone
from harness.lab.idrac.profile import DEFAULT, Profile
from harness.lab.model import parts
from harness.lab.model.machine import Machine

pytest.importorskip("cheroot")
pytest.importorskip("cryptography")

FAST = 300.0
"""How many times as fast the machine's time runs: its start without GPUs, a BIOS job included, then takes about two seconds."""


@dataclass(frozen=True)
class Bmc:
    """One served iDRAC, the certificate a client may trust, and command lines at work on it."""

    served: Standalone
    certificate: Path
    password: str = parts.BMC_PASSWORD

    @property
    def machine(self) -> Machine:
        return self.served.machine

    @property
    def current(self) -> dict[str, object]:
        self.machine.settle()
        return dict(self.machine.controller.bios.current)

    @property
    def boots(self) -> int:
        self.machine.settle()
        return self.machine.boots

    def run(self, tool: str, *options: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).parent / tool, "-u", self.served.user, "-p", self.password, "-r", self.served.url, *options]
        plain = {name: value for name, value in os.environ.items() if name not in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")}
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=plain)


@pytest.fixture
def serve_idrac(tmp_path: Path) -> Iterator[Callable[..., Bmc]]:
    with ExitStack() as stack:

        def build(profile: Profile = DEFAULT, *faults: str, speed: float = FAST) -> Bmc:
            served = stack.enter_context(stand_alone(profile, frozenset(faults), speed=speed))
            split = urlsplit(served.url)
            certificate = tmp_path / "certificate.pem"
            certificate.write_text(ssl.get_server_certificate((str(split.hostname), split.port or 443)))
            return Bmc(served, certificate)

        yield build
