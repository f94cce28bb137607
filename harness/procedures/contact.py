"""First contact: who answers, and where its log stands. Nothing is judged here, and nothing raised that a check should raise.

trusted? ──▶ admitted? ──▶ known ──▶ marked
  bmc.tls      bmc.auth     bmc.identity
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import LogEntry, Manager, ServiceRoot, System
from harness.errors import AuthRefused, BenchError, BringupError, DeviceError

TLS, AUTH, IDENTITY = "bmc.tls", "bmc.auth", "bmc.identity"


@dataclass(frozen=True)
class Contact:
    """What the first questions told.

    ``error`` is why it ended early and ``check`` the check that has to raise it; what was not reached is None. ``lc_baseline`` is
    the newest entry of the Lifecycle log at the start: everything after it happened during the run.
    """

    expected_tag: str
    root: ServiceRoot | None = None
    system: System | None = None
    manager: Manager | None = None
    lc_baseline: LogEntry | None = None
    error: BringupError | None = None
    check: str = ""
    at: float = 0.0

    def identity(self) -> dict[str, str]:
        """Who the machine says it is, for the record: service tag, system, BIOS and iDRAC as far as known."""
        facts: dict[str, str] = {}
        if self.root is not None:
            facts["simulated"] = self.root.simulated
        if self.system is not None:
            facts |= {"service_tag": self.system.service_tag, "system": self.system.model, "bios": self.system.bios_version}
        if self.manager is not None:
            facts["idrac"] = self.manager.firmware_version
        return {name: value for name, value in facts.items() if value}


def make_contact(idrac: Idrac, expected_tag: str) -> Contact:
    """Ask who is there, once each. Errors of bench and device are kept for the check that judges them."""
    at = idrac.clock.now()
    root = None
    try:
        root = idrac.root()
        found = idrac.located()
        system = found.system()
        return Contact(expected_tag, root, system, found.manager(), found.lc_mark(), at=at)
    except AuthRefused as error:
        return Contact(expected_tag, root, error=error, check=AUTH, at=at)
    except BenchError as error:
        return Contact(expected_tag, root, error=error, check=TLS if root is None else AUTH, at=at)
    except DeviceError as error:
        return Contact(expected_tag, root, error=error, check=TLS if root is None else IDENTITY, at=at)
