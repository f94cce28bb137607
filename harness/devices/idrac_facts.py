"""What an iDRAC tells, as frozen facts. Every ``at`` is the clock's time of the answer, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.devices.redfish import Message, dig, suffix, text
from harness.limits import Value
from harness.ports import Json

RESTARTED = frozenset({"RAC0182"})
"""Lifecycle-log ids of an iDRAC that was restarted, whoever asked for it (EEMI registry 2.9.0)."""


@dataclass(frozen=True)
class ServiceRoot:
    """What the service says of itself. ``simulated`` is the grade of a simulated one (``model``), empty for hardware."""

    product: str
    redfish_version: str
    vendor: str
    service_tag: str
    simulated: str = ""


@dataclass(frozen=True)
class System:
    """The host as the iDRAC sees it. ``boot_progress`` is empty on firmware before 7.00, ``at`` is the time of the answer.

    ``pcie_devices`` are the places of its PCIe devices, each once: some firmware links to a device once for each of its functions
    (jenningsloy318/redfish_exporter#57; 18 links to 13 devices on a recorded R750, NVIDIA/libredfish tests/mockups/dell).
    """

    service_tag: str
    model: str
    bios_version: str
    power_state: str
    power_restore_policy: str = ""
    boot_progress: str = ""
    reset_types: tuple[str, ...] = ()
    at: float = 0.0
    pcie_devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manager:
    """The iDRAC itself; ``last_reset`` is its own date, empty on firmware before 4.00."""

    model: str
    firmware_version: str
    last_reset: str = ""


@dataclass(frozen=True)
class BiosState:
    """BIOS attributes in effect and pending. An iDRAC lists only what changes as pending, so empty means none.

    ``/Bios`` may show pending values as current before their job has run (github.com/NVIDIA/libredfish pull 25): judge it only with
    the pending set and the job queue beside it.
    """

    attributes: Mapping[str, Value | None]
    pending: Mapping[str, Value | None]
    registry: str
    apply_times: tuple[str, ...]
    at: float = 0.0


@dataclass(frozen=True)
class Access:
    """What may be set at all: ``lockdown`` is Enabled, Disabled or empty where there is no such mode.

    ``privileges`` are the bits of Users.N.Privilege of the user who is logged in, None where that is not told (nobody known, or a
    directory's user). Bits: cfgUserAdminPrivilege, Dell iDRAC8 2.05.05.05 RACADM reference guide.
    """

    lockdown: str = ""
    user: str = ""
    privileges: int | None = None


@dataclass(frozen=True)
class LcSettings:
    """How the Lifecycle Controller is set: ``Enabled``, ``Disabled`` or another word; empty where it is not told.

    ``controller`` is LCAttributes.1.LifecycleControllerState, ``inventory`` CollectSystemInventoryOnRestart (CSIOR); both Enabled
    on recorded machines (NVIDIA/libredfish tests/mockups/dell).
    """

    controller: str = ""
    inventory: str = ""


@dataclass(frozen=True)
class LcStatus:
    """The answer of GetRemoteServicesAPIStatus; ``server`` is where the host is, from POST to OutOfPOST (DellLCService.v1_7_1)."""

    status: str
    lc: str
    rt: str
    server: str
    at: float = 0.0

    def __str__(self) -> str:
        return f"host {self.server}, Lifecycle Controller {self.lc}"


@dataclass(frozen=True)
class LogEntry:
    """One entry of the Lifecycle log; numbers grow. ``message_id`` is a suffix: ids are matched, never severities."""

    number: int
    created: str
    message_id: str
    text: str = ""
    severity: str = ""
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.message_id} (#{self.number}, {self.created})"


@dataclass(frozen=True)
class Staged:
    """What answered the PATCH of the settings: ``job_id`` is empty where no Location named a job."""

    status: int
    job_id: str
    messages: tuple[Message, ...]
    at: float


@dataclass(frozen=True)
class Screenshot:
    """A picture of the host's screen, a PNG as the iDRAC encodes it; empty where it gave none."""

    image: bytes
    at: float


def parse_log_entry(body: Json) -> LogEntry:
    """Read a LogEntry; an id that is no number counts as 0."""
    number = text(body, "Id")
    arguments = dig(body, "MessageArgs")
    return LogEntry(
        int(number) if number.isdecimal() else 0,
        text(body, "Created"),
        suffix(dig(body, "MessageId")),
        text(body, "Message"),
        text(body, "Severity"),
        tuple(str(argument) for argument in arguments) if isinstance(arguments, list) else (),
    )
