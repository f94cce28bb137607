"""Where an iDRAC keeps things: known places, and the links that lead to them.

service root ─▶ Systems/System.Embedded.1 ─▶ Bios ─▶ Settings (pending values)
             ├▶ Managers/iDRAC.Embedded.1 ─▶ Jobs, DellLCService, DellAttributes, LogServices/Lclog
             └▶ JobService/Jobs (the DMTF view of the same jobs)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.devices.redfish import PAUSE, ROOT, Redfish, dig, follow, is_place, link, text
from harness.errors import DeviceError, RedfishError, Timeout
from harness.ports import Json

SYSTEM_ID = "System.Embedded.1"
"""The host's member of Systems. Machines with an HGX board or a DPU have several, in any order (NVIDIA/libredfish)."""

MANAGER_ID = "iDRAC.Embedded.1"
"""The iDRAC's member of Managers."""

LC_ID = "LifecycleController.Embedded.1"
"""The Lifecycle Controller's page of attributes beside that of the iDRAC (NVIDIA/libredfish tests/mockups/dell)."""

FILLING = 240.0
"""Seconds for an empty collection of systems or managers to fill: an R640 took two minutes after a forced clearing of its queue
(github.com/redhat-performance/jetlag/issues/778)."""

OLD_LC_SERVICE = f"{ROOT}/Dell/Managers/{MANAGER_ID}/DellLCService"
"""Where early iDRAC9 firmware has DellLCService, without a link (dell/iDRAC-Redfish-Scripting, its scripts for old firmware)."""

_SYSTEM = f"{ROOT}/Systems/{SYSTEM_ID}"
_MANAGER = f"{ROOT}/Managers/{MANAGER_ID}"


@dataclass(frozen=True)
class Places:
    """Where an iDRAC keeps what the harness reads; empty where it has no such thing.

    The defaults are those of every public iDRAC9 capture from 6.00 to 7.10 (NVIDIA/libredfish tests/mockups). Older ones differ
    (3.15 has Managers/.../Jobs and Managers/.../Attributes, sailfishdell/sailfish), so procedures follow the links first.
    """

    system: str = _SYSTEM
    manager: str = _MANAGER
    reset: str = f"{_SYSTEM}/Actions/ComputerSystem.Reset"
    bios: str = f"{_SYSTEM}/Bios"
    settings: str = f"{_SYSTEM}/Bios/Settings"
    clear_pending: str = f"{_SYSTEM}/Bios/Settings/Actions/Oem/DellManager.ClearPending"
    jobs: str = f"{_MANAGER}/Oem/Dell/Jobs"
    dmtf_jobs: str = f"{ROOT}/JobService/Jobs"
    lc_status: str = f"{_MANAGER}/Oem/Dell/DellLCService/Actions/DellLCService.GetRemoteServicesAPIStatus"
    screenshot: str = f"{_MANAGER}/Oem/Dell/DellLCService/Actions/DellLCService.ExportServerScreenShot"
    attributes: str = f"{_MANAGER}/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
    log: str = f"{_MANAGER}/LogServices/Lclog/Entries"
    video: str = f"{_MANAGER}/Oem/Dell/DellLCService/Actions/DellLCService.ExportVideoLog"
    lc_attributes: str = f"{_MANAGER}/Oem/Dell/DellAttributes/{LC_ID}"


def find_places(redfish: Redfish) -> Places:
    """Follow the links from the service root. Raises DeviceError for a link that has to be there and is not."""
    root = redfish.get(ROOT)
    system_path = find_member(redfish, follow(root, ROOT, "Systems"), SYSTEM_ID)
    manager_path = find_member(redfish, follow(root, ROOT, "Managers"), MANAGER_ID)
    system, manager = redfish.get(system_path), redfish.get(manager_path)
    bios_path = follow(system, system_path, "Bios")
    settings_path = follow(redfish.get(bios_path), bios_path, "@Redfish.Settings", "SettingsObject")
    dell = dig(manager, "Links", "Oem", "Dell")
    lc_path = link(dell, "DellLCService")
    lc = redfish.get(lc_path) if lc_path else _unlinked_service(redfish)
    job_service = link(root, "JobService")
    return Places(
        system_path,
        manager_path,
        _place(text(system, "Actions", "#ComputerSystem.Reset", "target")),
        bios_path,
        settings_path,
        _action(dig(redfish.get(settings_path), "Actions", "Oem"), "DellManager.ClearPending"),
        _place(link(dell, "Jobs")) or f"{manager_path}/Jobs",
        _place(link(redfish.get(job_service), "Jobs")) if job_service else "",
        _action(dig(lc, "Actions"), "DellLCService.GetRemoteServicesAPIStatus"),
        _action(dig(lc, "Actions"), "DellLCService.ExportServerScreenShot"),
        _place(_ending(dig(dell, "DellAttributes"), MANAGER_ID) or link(dell, "DellAttributes", 0)),
        _find_log(redfish, follow(manager, manager_path, "LogServices")),
        _action(dig(lc, "Actions"), "DellLCService.ExportVideoLog"),
        _place(_ending(dig(dell, "DellAttributes"), LC_ID)),
    )


def find_member(redfish: Redfish, collection: str, name: str) -> str:
    """The member of that name, else the only one. Raises DeviceError where there is neither.

    An R640 shows no system for two minutes after its Lifecycle Controller restarts (github.com/redhat-performance/jetlag, 778), so
    an empty collection is looked at again for that long.
    """
    found = _filled(redfish, collection)
    named = [path for path in found if path.rstrip("/").endswith(f"/{name}")]
    if named or len(found) == 1:
        return (named or found)[0]
    raise DeviceError(f"{collection} has no {name} among its {len(found)} members; if it stays empty, wait and run again")


def _filled(redfish: Redfish, collection: str) -> list[str]:
    """The links of a collection; one that is empty now is looked at for FILLING seconds."""

    def look() -> list[str]:
        return [link(member) for member in redfish.members(collection)]

    if found := look():
        return found
    redfish.clock.sleep(PAUSE)
    try:
        return redfish.clock.until(look, bool, what=f"{collection} to have members", every=PAUSE, within=FILLING)
    except Timeout:
        return []


def _unlinked_service(redfish: Redfish) -> Json:
    """DellLCService of an iDRAC whose manager does not link to it, at its old place; empty where there is none either."""
    try:
        return redfish.get(OLD_LC_SERVICE)
    except RedfishError as error:
        if error.status == 404:
            return {}
        raise


def _find_log(redfish: Redfish, services: str) -> str:
    for member in redfish.members(services):
        path = link(member)
        if path.rstrip("/").endswith("/Lclog"):
            return follow(redfish.get(path), path, "Entries")
    raise DeviceError(f"{services} has no Lclog")


def _action(actions: Json, name: str) -> str:
    """The target of an action whose key ends with ``name``: iDRAC9 6.00 prefixes Dell's with a schema version."""
    if not isinstance(actions, Mapping):
        return ""
    return next((_place(text(action, "target")) for key, action in actions.items() if key.endswith(f"#{name}")), "")


def _place(path: str) -> str:
    """A path as it is, "" for what is none: it is asked and written to without another look."""
    return path if is_place(path) else ""


def _ending(links: Json, name: str) -> str:
    """The link of a list that ends with ``/name``, else the one that has it as a step."""
    paths = [link(entry) for entry in links] if isinstance(links, Sequence) and not isinstance(links, str) else []
    return next((path for path in paths if path.endswith(f"/{name}")), next((path for path in paths if f"/{name}/" in path), ""))
