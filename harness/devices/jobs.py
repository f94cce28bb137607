"""Jobs of an iDRAC: what they say, and what that means.

    New ──▶ Scheduled ──▶ Running ──▶ Completed
     │          │            └──────▶ CompletedWithErrors, Failed         100 % in both: progress is no result
     │          └ PR30, for ever: the state never changes, only the message id says that it failed
     └ JCP024: waits for a Lifecycle Controller that somebody else is using

Three resources show the same job: Dell's own (bare ids, times without zone), DMTF's JobService (ids with registry, times with
offset) and a Task that deletes itself. Message ids are compared by suffix, against explicit lists; texts and percentages are not.
Ids and meanings: the EEMI registry 2.9.0 in NVIDIA/libredfish tests/mockups/dell_multi_dpu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.devices.redfish import dig, suffix, text
from harness.ports import Json

BIOS_JOBS = frozenset({"BIOSConfiguration", "InbandBIOSConfiguration"})
"""Values of DellJob.JobType that change BIOS settings (DellJob.v1_5_0)."""

SUCCEEDED = frozenset({"PR19", "JCP007", "JCP037"})
"""The only ids that mean success.

SYS431 is not one of them, though a public tool counts it: it says that nothing was applied because an import is running.
"""

FAILED = frozenset({"PR21", "PR25", "PR26", "PR30", "PR31", "PR32", "PR34", "JCP003", "JCP008", "JCP041", "JCP042", "JCP052"})
"""Ids that mean failure whatever the state says."""

NEVER_BEGAN = frozenset({"PR25", "PR26", "PR30"})
"""Failures of a job that was never run. PR30 stays in state Scheduled for ever (comment in NVIDIA/libredfish src/dell.rs)."""

CANCELLED = frozenset({"PR24", "JCP009"})
"""Ids of a job that somebody took away."""

LC_IN_USE = frozenset({"JCP024", "RED023"})
"""Ids of a job that stays New: the host sits in the Lifecycle Controller (github.com/dell/iDRAC-Redfish-Scripting/issues/108)."""

_SUCCESS_STATES = frozenset({"Completed"})
_FAILURE_STATES = frozenset({"CompletedWithErrors", "Failed", "RebootFailed", "Exception"})
_CANCEL_STATES = frozenset({"Cancelled"})
_RUNNING_STATES = frozenset(
    {"Running", "Downloading", "ReadyForExecution", "RebootPending", "PendingActivation", "Starting", "Paused"}
)
_FINISHED_STATES = frozenset(
    {"Completed", "CompletedWithErrors", "Failed", "RebootCompleted", "RebootFailed", "Cancelled", "Exception"}
)

_DMTF_AS_DELL = {"Pending": "Scheduled", "New": "New", "Starting": "Running", "Running": "Running"}
"""DMTF states that say what Dell's say, for the time when only the JobService still knows the job."""


class Phase(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Job:
    """One job as one or both views show it; ``message_id`` is a suffix.

    ``dmtf_state`` and ``dmtf_status`` are empty where that view was not asked or does not know the job. ``at`` is the clock's
    time of the answer; the job's own dates are not parsed, they say TIME_NA and TIME_NOW and lack a zone.
    """

    id: str
    state: str
    type: str = ""
    message_id: str = ""
    message: str = ""
    percent: int | None = None
    dmtf_state: str = ""
    dmtf_status: str = ""
    at: float = 0.0

    @property
    def phase(self) -> Phase:
        """How far it is, by message id first, then by the states of both views."""
        states = {self.state, self.dmtf_state} - {""}
        if self.message_id in FAILED or states & _FAILURE_STATES or self.dmtf_status == "Critical":
            return Phase.FAILED
        if self.message_id in CANCELLED or states & _CANCEL_STATES:
            return Phase.CANCELLED
        if states and states <= _SUCCESS_STATES:
            return Phase.SUCCEEDED if self.message_id in SUCCEEDED else Phase.FAILED
        if self._known_state in _RUNNING_STATES:
            return Phase.RUNNING
        return Phase.SCHEDULED if self._known_state == "Scheduled" else Phase.WAITING

    @property
    def is_active(self) -> bool:
        """True where it may still change the machine."""
        return self._known_state not in _FINISHED_STATES

    @property
    def is_running(self) -> bool:
        """True where it is at work: nothing may be reset and nothing deleted."""
        return self._known_state in _RUNNING_STATES

    @property
    def is_bios(self) -> bool:
        """True where it changes BIOS settings."""
        return self.type in BIOS_JOBS

    @property
    def _known_state(self) -> str:
        return self.state or _DMTF_AS_DELL.get(self.dmtf_state, self.dmtf_state)

    def __str__(self) -> str:
        percent = "" if self.percent is None else f", {self.percent} %"
        return f"{self.id} {self.type or 'job'} {self.state or self.dmtf_state} ({self.message_id or 'no MessageId'}{percent})"


def parse_dell_job(body: Json, at: float) -> Job:
    """Read a DellJob; whatever is missing or null stays empty."""
    percent = dig(body, "PercentComplete")
    return Job(
        text(body, "Id"),
        text(body, "JobState"),
        text(body, "JobType"),
        suffix(dig(body, "MessageId")),
        text(body, "Message"),
        percent if isinstance(percent, int) else None,
        at=at,
    )


def parse_dmtf_job(body: Json, at: float) -> Job:
    """Read a DMTF Job; its message is the last of ``Messages``, and it does not tell Dell's type or state."""
    percent = dig(body, "PercentComplete")
    return Job(
        text(body, "Id"),
        "",
        "",
        suffix(dig(body, "Messages", -1, "MessageId")),
        text(body, "Messages", -1, "Message"),
        percent if isinstance(percent, int) else None,
        text(body, "JobState"),
        text(body, "JobStatus"),
        at,
    )


def job_id_in(location: str, body: Json = None) -> str:
    """The ``JID_...`` that a Location ends with, else that of a body; empty where there is none.

    iDRAC9 points to Tasks/JID, iDRAC10 to TaskMonitors/JID (dell/terraform-provider-redfish common/job_management.go).
    """
    candidates = [location.rstrip("/").rpartition("/")[2]]
    if isinstance(body, Mapping):
        candidates += [text(body, "Id"), text(body, "@odata.id").rpartition("/")[2]]
    return next((candidate for candidate in candidates if re.fullmatch(r"JID_\w+", candidate)), "")
