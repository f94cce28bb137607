"""A Dell iDRAC: Dell's own ways on top of Redfish. Facts come back frozen; nothing is judged and nothing remembered here."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.devices.bios_registry import Registry, parse_registry
from harness.devices.firmware import Firmware, parse_firmware
from harness.devices.idrac_facts import (
    Access,
    BiosState,
    LcSettings,
    LcStatus,
    LogEntry,
    Manager,
    Screenshot,
    ServiceRoot,
    Staged,
    System,
    parse_log_entry,
)
from harness.devices.idrac_pcie import BmcInventory, read_bmc_inventory
from harness.devices.idrac_places import Places, find_places
from harness.devices.jobs import Job, job_id_in, parse_dell_job, parse_dmtf_job
from harness.devices.redfish import ROOT, Redfish, dig, is_place, link, messages, suffix, table, text, word
from harness.errors import BenchError, DeviceError, RedfishError, Unreadable
from harness.limits import Value
from harness.ports import HttpAnswer, Json
from harness.secret import NOT_SHOWN, holds_secret

GONE = frozenset({"SYS403"})
"""A resource that is not there: HTTP 404 (github.com/dell/iDRAC-Redfish-Scripting/issues/383)."""


LOCKDOWN = "Lockdown.1.SystemLockdown"
"""The attribute of the iDRAC that says whether anything may be set at all; older firmware has no such thing."""


class Idrac:
    """One iDRAC. ``located`` gives a handle whose places were found by following links; ``user`` is who is logged in, if known."""

    def __init__(self, redfish: Redfish, places: Places | None = None, user: str = "") -> None:
        self.redfish = redfish
        self.clock = redfish.clock
        self.places = Places() if places is None else places
        self.user = user
        self._is_located = places is not None

    def located(self) -> Idrac:
        """The same iDRAC with every place found by links from the service root; itself where they were. Raises DeviceError."""
        return self if self._is_located else Idrac(self.redfish, find_places(self.redfish), self.user)

    # ── the machine ───────────────────────────────────────────────────────────────────────────────────────────────

    def root(self) -> ServiceRoot:
        """The service root."""
        body = self.redfish.get(ROOT)
        return ServiceRoot(
            text(body, "Product"),
            text(body, "RedfishVersion"),
            text(body, "Vendor"),
            text(body, "Oem", "Dell", "ServiceTag"),
            text(body, "Oem", "BringupHarness", "Simulated"),
        )

    def system(self) -> System:
        """The host. SKU is the service tag; SerialNumber is the board's."""
        answer = self._read(self.places.system)
        body = answer.body
        allowed = dig(body, "Actions", "#ComputerSystem.Reset", "ResetType@Redfish.AllowableValues")
        return System(
            text(body, "SKU"),
            text(body, "Model"),
            text(body, "BiosVersion"),
            text(body, "PowerState"),
            text(body, "PowerRestorePolicy"),
            text(body, "BootProgress", "LastState"),
            _words(allowed),
            answer.at,
            _distinct(dig(body, "PCIeDevices")),
        )

    def manager(self) -> Manager:
        """The iDRAC itself."""
        body = self.redfish.get(self.places.manager)
        return Manager(text(body, "Model"), text(body, "FirmwareVersion"), text(body, "LastResetTime"))

    def firmware(self) -> tuple[Firmware, ...]:
        """What every part runs, and what is kept beside it. Expanded at one level; where that is refused, the ids tell enough."""
        service = link(self.redfish.get(ROOT), "UpdateService") or f"{ROOT}/UpdateService"
        place = link(self.redfish.get(service), "FirmwareInventory") or f"{service}/FirmwareInventory"
        try:
            members = list(self.redfish.members(f"{place}?$expand=*($levels=1)"))
        except RedfishError:
            members = list(self.redfish.members(place))
        return tuple(firmware for member in members if (firmware := parse_firmware(member)) is not None)

    def pcie_devices(self) -> BmcInventory:
        """The PCIe devices that the iDRAC lists. Raises DeviceError and BenchError where they cannot be asked for."""
        return read_bmc_inventory(self.redfish, self.places.system)

    def insist_on(self, service_tag: str) -> System:
        """Read the service tag afresh, as before every write. Raises BenchError for any other machine."""
        system = self.system()
        if system.service_tag != service_tag:
            raise BenchError(
                f"the machine that answers is {system.service_tag or 'without a service tag'}, the bench pins {service_tag}: "
                "nothing is written; correct the BMC's address or the bench's service_tag"
            )
        return system

    def access(self) -> Access:
        """Whether anything may be set, and what our user may do. Raises Unreadable where lockdown cannot be told."""
        if not self.places.attributes:
            return Access(user=self.user)
        attributes = table(self.places.attributes, self.redfish.get(self.places.attributes), "Attributes")
        lockdown = word(self.places.attributes, attributes, LOCKDOWN) if LOCKDOWN in attributes else ""
        return Access(lockdown, self.user, _privileges(attributes, self.user))

    def lc_settings(self) -> LcSettings:
        """How the Lifecycle Controller is set, empty where this iDRAC has no such page. Raises DeviceError."""
        if not self.places.lc_attributes:
            return LcSettings()
        body = self.redfish.get(self.places.lc_attributes)
        state = text(body, "Attributes", "LCAttributes.1.LifecycleControllerState")
        return LcSettings(state, text(body, "Attributes", "LCAttributes.1.CollectSystemInventoryOnRestart"))

    def lc_status(self) -> LcStatus:
        """Where the Lifecycle Controller and the host are. A POST that only reads.

        Raises DeviceError where there is none, Unreadable where it does not tell both.
        """
        if not self.places.lc_status:
            raise DeviceError("this iDRAC has no GetRemoteServicesAPIStatus, so POST cannot be watched; update its firmware")
        answer = self.redfish.observe_post(self.places.lc_status)
        body, asked = answer.body, self.places.lc_status
        lc, server = word(asked, body, "LCStatus"), word(asked, body, "ServerStatus")
        return LcStatus(text(body, "Status"), lc, text(body, "RTStatus"), server, answer.at)

    def screenshot(self) -> Screenshot:
        """The host's screen now. A POST that only reads; needs the Enterprise licence and embedded video."""
        if not self.places.screenshot:
            return Screenshot(b"", self.clock.now())
        answer = self.redfish.observe_post(self.places.screenshot, {"FileType": "ServerScreenShot"}, timeout=120)
        try:
            return Screenshot(base64.b64decode(text(answer.body, "ServerScreenShotFile")), answer.at)
        except (binascii.Error, ValueError):
            return Screenshot(b"", answer.at)

    def boot_video(self) -> str:
        """Have the film of the last start put together, and return the path at which it can be fetched, empty where there is none.

        A POST that only reads: the answer is 202 with the archive's place as Location (dell/iDRAC-Redfish-Scripting,
        ExportVideoLogREDFISH).
        """
        if not self.places.video:
            return ""
        asked = {"ShareType": "Local", "FileType": "BootCaptureVideo"}
        location = self.redfish.observe_post(self.places.video, asked, timeout=120).headers.get("location", "")
        return location if is_place(location) else ""

    def reset(self, kind: str) -> HttpAnswer:
        """Ask for a reset of one of the host's own ``reset_types``. 204 promises nothing: look what happens."""
        if not self.places.reset:
            raise DeviceError("this iDRAC offers no ComputerSystem.Reset, so nothing was reset")
        return self.redfish.act("POST", self.places.reset, {"ResetType": kind})

    # ── BIOS settings ─────────────────────────────────────────────────────────────────────────────────────────────

    def bios(self) -> BiosState:
        """The BIOS attributes, in effect and pending. Raises Unreadable where either cannot be told."""
        body = self.redfish.get(self.places.bios)
        answer = self._read(self.places.settings)
        times = dig(body, "@Redfish.Settings", "SupportedApplyTimes")
        return BiosState(
            _values(self.places.bios, body),
            _values(self.places.settings, answer.body),
            text(body, "AttributeRegistry"),
            _words(times),
            answer.at,
        )

    def registry(self) -> Registry:
        """The attribute registry; half a megabyte, so read it once. It is linked from Registries, and stands below Bios."""
        for member in self.redfish.members(f"{ROOT}/Registries"):
            path = link(member)
            if "BiosAttributeRegistry" in path:
                location = text(self.redfish.get(path), "Location", 0, "Uri")
                if location:
                    return parse_registry(self.redfish.get(location))
        return parse_registry(self.redfish.get(f"{self.places.bios}/BiosRegistry"))

    def stage_bios(self, attributes: Mapping[str, Value], *, apply_time: str = "OnReset") -> Staged:
        """PATCH the settings once. With ``apply_time`` the iDRAC makes the job, without it the values only become pending.

        All or nothing: one wrong value and none is taken (github.com/dell/dellemc-openmanage-ansible-modules/issues/648). Creating
        a job beside an apply time is refused, SYS011, although a job was made (github.com/quadsproject/quads/issues/726).
        """
        body: dict[str, Json] = {"Attributes": dict(attributes)}
        if apply_time:
            body = {"@Redfish.SettingsApplyTime": {"ApplyTime": apply_time}, **body}
        answer = self.redfish.act("PATCH", self.places.settings, body)
        location = answer.headers.get("location", "")
        return Staged(answer.status, job_id_in(location, answer.body), messages(answer.body), answer.at)

    def create_job(self) -> Staged:
        """Make the job for what is pending: the second step of firmware that knows no apply times (iDRAC9 3.15)."""
        answer = self.redfish.act("POST", self.places.jobs, {"TargetSettingsURI": self.places.settings})
        location = answer.headers.get("location", "")
        return Staged(answer.status, job_id_in(location, answer.body), messages(answer.body), answer.at)

    def clear_pending(self) -> None:
        """Forget all pending values; refused (BIOS011) while a job is to apply them."""
        if not self.places.clear_pending:
            raise DeviceError("this iDRAC offers no ClearPending, so the pending values stay")
        self.redfish.act("POST", self.places.clear_pending, {})

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def jobs(self) -> tuple[Job, ...]:
        """All jobs of the queue, Dell's view. Expanded at one level: iDRAC9 allows no deeper one.

        Raises Unreadable where the queue, or a job in it, cannot be read: such a queue is not an empty one.
        """
        found = []
        for member in self.redfish.members(f"{self.places.jobs}?$expand=*($levels=1)"):
            body = member if "JobState" in member else self._listed(link(member))
            if body is not None:
                found.append(_job(self.places.jobs, body, self.clock.now()))
        return tuple(found)

    def job(self, job_id: str, *, both: bool = False) -> Job | None:
        """One job in Dell's view, with ``both`` also in DMTF's; None where no view knows it.

        Dell's view may lose a finished job, DMTF's keeps it (github.com/dell/iDRAC-Redfish-Scripting/issues/160 and 275).
        """
        dell = self._job_at(self.places.jobs, job_id)
        job = None if dell is None else _job(f"{self.places.jobs}/{job_id}", dell.body, dell.at, job_id)
        if self.places.dmtf_jobs and (both or job is None):
            dmtf = self._job_at(self.places.dmtf_jobs, job_id)
            if dmtf is not None:
                seen = parse_dmtf_job(dmtf.body, dmtf.at)
                job = seen if job is None else replace(job, dmtf_state=seen.dmtf_state, dmtf_status=seen.dmtf_status, at=seen.at)
        return job

    def delete_job(self, job_id: str) -> None:
        """Take one job out of the queue; what it would have applied stays pending. A running one refuses (JCP015)."""
        self.redfish.act("DELETE", f"{self.places.jobs}/{job_id}")

    def _listed(self, path: str) -> Json:
        """A job that a queue only links to; None where it is gone by now."""
        place, _, job_id = path.rpartition("/")
        answer = self._job_at(place, job_id)
        return None if answer is None else answer.body

    def _job_at(self, place: str, job_id: str) -> HttpAnswer | None:
        try:
            return self._read(f"{place}/{job_id}")
        except RedfishError as error:
            if error.status == 404 or {suffix(message_id) for message_id in error.message_ids} & GONE:
                return None
            raise

    # ── the Lifecycle log ─────────────────────────────────────────────────────────────────────────────────────────

    def lc_mark(self) -> LogEntry | None:
        """The newest entry, as a mark to read on from; None where the log is empty."""
        entries = next(self._log_pages(), [])
        return entries[-1] if entries else None

    def lc_log(self, since: int = 0) -> tuple[LogEntry, ...]:
        """The entries after number ``since``, oldest first. A log that was cleared begins anew, so all of it is after."""
        found: list[LogEntry] = []
        for entries in self._log_pages():
            if not found and entries and entries[-1].number < since:
                since = 0
            found = [entry for entry in entries if entry.number > since] + found
            if not entries or entries[0].number <= since:
                break
        return tuple(found)

    def _log_pages(self) -> Iterator[list[LogEntry]]:
        """Page after page, each oldest first; an iDRAC sends the newest first, fifty a page."""
        for page in self.redfish.pages(self.places.log):
            yield sorted((parse_log_entry(entry) for entry in page["Members"]), key=lambda entry: entry.number)

    def _read(self, path: str) -> HttpAnswer:
        return self.redfish.read(path)


def _values(place: str, body: Json) -> Mapping[str, Value | None]:
    """The attributes of a BIOS page: plain values by name. A secret is hidden here, so that nothing behind can tell it."""
    attributes = table(place, body, "Attributes")
    for name, value in attributes.items():
        if not isinstance(value, str | int | float | None):
            raise Unreadable(f"{place}: the value of {name} is no plain value, so it cannot be told")
    return {name: NOT_SHOWN if value and holds_secret(name) else value for name, value in attributes.items()}


def _job(place: str, body: Json, at: float, job_id: str = "") -> Job:
    """A job that tells enough to be judged: who it is, its state, and its type while it may still change the machine."""
    word(place, body, "JobState")
    job = parse_dell_job(body, at)
    if not re.fullmatch(r"[JR]ID_\w+", job.id):
        raise Unreadable(f"{place}: a job has the id {job.id!r}")
    if job_id and job.id != job_id:
        raise Unreadable(f"{place}: the answer is about {job.id}")
    if job.is_active:
        word(place, body, "JobType")
    return job


def _distinct(found: Json) -> tuple[str, ...]:
    """The places that a list links to, each once, in the order of their first link; none where it is no list."""
    places = (link(entry) for entry in found) if isinstance(found, list) else ()
    return tuple(dict.fromkeys(place for place in places if place))


def _privileges(attributes: Mapping[str, Json], user: str) -> int | None:
    """The bits of the local user of that name: Users.N.UserName and Users.N.Privilege (a recorded R750, NVIDIA/libredfish)."""
    keys = [key for key, name in attributes.items() if name == user and re.fullmatch(r"Users\.\d+\.UserName", key)] if user else []
    bits = [attributes.get(key.replace("UserName", "Privilege")) for key in keys]
    return bits[0] if len(bits) == 1 and isinstance(bits[0], int) and not isinstance(bits[0], bool) else None


def _words(found: Json) -> tuple[str, ...]:
    """A list's texts; none where it is no list."""
    return tuple(entry for entry in found if isinstance(entry, str)) if isinstance(found, list) else ()
