"""Pages of the BIOS: current, pending, registry, and what a PATCH does.

    PATCH Settings ─┬─ with ApplyTime ──▶ pending + job ──▶ 202, Location Tasks/JID
                    ├─ without ─────────▶ pending, no job ▶ 200       (a job comes from POST Jobs)
                    ├─ nothing new ─────▶ 200, no Location            (dsx-ai-factory/libredfish#97)
                    └─ refused ─────────▶ 400, nothing taken

Faults that live here: the answer to a PATCH is lost (taken: benign, not taken: bios.reconcile), and a firmware that takes values
and makes no job (bios.job-before-reset).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from harness.errors import Unreachable
from harness.lab.idrac import inventory, mishaps, names, registry
from harness.lab.idrac.controller import Controller, Server
from harness.lab.idrac.queue import BIOS
from harness.lab.idrac.web import (
    APPLY,
    Complaint,
    Json,
    Reply,
    Request,
    Route,
    collection,
    done,
    link,
    not_found,
    ok,
    refuse,
    refuse_precondition,
)

REGISTRY_ID = "BiosAttributeRegistry.v1_0_3"


def routes(server: Server) -> tuple[Route, ...]:
    """The pages of this module."""
    controller = server.controller
    bios = controller.bios
    lost: list[str] = [fault for fault in ("bios.reconcile", "benign.patch-answer-lost") if fault in controller.faults]

    def show(_: Request) -> Reply:
        return ok(_bios(controller))

    def show_settings(_: Request) -> Reply:
        body = _settings(controller)
        return Reply(200, body, {"ETag": _etag(body)})

    def patch(request: Request) -> Reply:
        if request.headers.get("if-match", "*") not in ("*", _etag(_settings(controller))):
            return refuse_precondition()
        controller.staged_at = controller.timeline.now
        if struck := mishaps.strike(controller, lambda body: _take(controller, body), request.body):
            return struck
        if lost:
            fault = lost.pop()
            if fault == "benign.patch-answer-lost":
                _take(controller, request.body)
            raise Unreachable("the connection was lost before the answer")
        return _take(controller, request.body)

    def clear(_: Request) -> Reply:
        if controller.jobs.open(BIOS) is not None:
            return refuse(400, "BIOS011")
        if not bios.pending:
            return refuse(400, "BIOS012")
        bios.clear()
        return done()

    def reset_bios(_: Request) -> Reply:
        if controller.is_locked_down:
            return refuse(400, "SYS406")
        bios.load_defaults()
        controller.log.add("UEFI0157", category="Configuration")
        return done("SYS413")

    def show_registry(_: Request) -> Reply:
        return ok(_REGISTRY | {"RegistryEntries": _entries(controller), "SupportedSystems": [_supported(controller)]})

    def registries(_: Request) -> Reply:
        path = f"{names.ROOT}/Registries"
        members = [link(f"{path}/BiosAttributeRegistry.v1_0_0")]
        return ok(collection(path, "MessageRegistryFileCollection", "Registry File Collection", members))

    def registry_file(request: Request) -> Reply:
        if request.names["id"] != "BiosAttributeRegistry.v1_0_0":
            return not_found(request.path)
        return ok(
            {
                "@odata.id": request.path,
                "@odata.type": "#MessageRegistryFile.v1_1_3.MessageRegistryFile",
                "Id": "BiosAttributeRegistry.v1_0_0",
                "Languages": ["en"],
                "Location": [{"Language": "en", "Uri": f"{names.BIOS}/BiosRegistry"}],
                "Name": "BIOS Attribute Registry File",
                "Registry": "BiosAttributeRegistry1.0",
            }
        )

    return (
        Route("GET", names.BIOS, show),
        Route("GET", names.SETTINGS, show_settings),
        Route("PATCH", names.SETTINGS, patch),
        Route("POST", names.CLEAR_PENDING, clear),
        Route("POST", f"{names.BIOS}/Actions/Bios.ResetBios", reset_bios),
        Route("GET", f"{names.BIOS}/BiosRegistry", show_registry),
        Route("GET", f"{names.ROOT}/Registries", registries),
        Route("GET", f"{names.ROOT}/Registries/{{id}}", registry_file),
    )


def _take(controller: Controller, body: Json) -> Reply:
    """Judge a PATCH and take it whole or not at all."""
    wanted = body.get("Attributes") if isinstance(body, dict) else None
    if not isinstance(wanted, dict):
        return refuse(400, Complaint("SYS428", ("Attributes",)))
    apply = body.get(APPLY)
    if forbidden := controller.forbids("SYS406", makes_job=apply is not None):
        return refuse(400, forbidden)
    if complaint := _reject_apply_time(controller.profile.apply_times, apply) or _reject_second(controller, next(iter(wanted), "")):
        return refuse(400, complaint)
    if rejected := controller.bios.reject(wanted):
        return refuse(
            400, *(Complaint(entry.message_id, entry.arguments, (f"#/Attributes/{entry.attribute}",)) for entry in rejected)
        )
    has_changed = controller.bios.stage(wanted)
    if apply is None or not controller.profile.apply_times or not has_changed or "bios.job-before-reset" in controller.faults:
        return done()
    job = controller.schedule_bios_job()
    return done("SYS413", status=202, headers={"Location": f"{controller.profile.location}/{job.id}"})


def _reject_second(controller: Controller, first: str) -> Complaint | None:
    """Nothing more can be staged once a job exists; iDRAC names the first attribute it stumbled over."""
    if controller.jobs.open(BIOS) is None:
        return None
    return Complaint("SYS011", (first,), (f"#/Attributes/{first}",))


def _reject_apply_time(offered: Sequence[str], apply: Json) -> Complaint | None:
    if apply is None or not offered:  # firmware that offers none knows nothing of the annotation
        return None
    kind = apply.get("ApplyTime") if isinstance(apply, dict) else None
    if kind not in offered:
        return Complaint("SYS426", (str(kind), "ApplyTime"), (f"#/{APPLY}/ApplyTime",))
    if kind == "OnReset":
        return None
    if not isinstance(apply.get("MaintenanceWindowStartTime"), str):
        return Complaint("SYS428", ("MaintenanceWindowStartTime",))
    duration = apply.get("MaintenanceWindowDurationInSeconds")
    return None if isinstance(duration, int) and duration > 300 else Complaint("SYS448")


def _bios(controller: Controller) -> dict[str, Json]:
    version, times = controller.identity.bios_version, controller.profile.apply_times
    image = f"{names.FIRMWARE}/{inventory.firmware_id(controller.profile, 'Installed', 159, version, 'BIOS.Setup.1-1')}"
    return {
        "@Redfish.Settings": {
            "@odata.context": "/redfish/v1/$metadata#Settings.Settings",
            "@odata.type": "#Settings.v1_3_5.Settings",
            "SettingsObject": link(names.SETTINGS),
            **({"SupportedApplyTimes": list(times)} if times else {}),
        },
        "@odata.context": "/redfish/v1/$metadata#Bios.Bios",
        "@odata.id": names.BIOS,
        "@odata.type": "#Bios.v1_2_0.Bios",
        "Actions": {
            "#Bios.ChangePassword": {"target": f"{names.BIOS}/Actions/Bios.ChangePassword"},
            "#Bios.ResetBios": {"target": f"{names.BIOS}/Actions/Bios.ResetBios"},
        },
        "AttributeRegistry": REGISTRY_ID,
        "Attributes": mishaps.shown(controller) | {"SystemServiceTag": controller.identity.service_tag},
        "Description": "BIOS Configuration Current Settings",
        "Id": "Bios",
        "Links": {"ActiveSoftwareImage": link(image), "SoftwareImages": [link(image)]},
        "Name": "BIOS Configuration Current Settings",
        "ResetBiosToDefaultsPending": False,
    }


def _settings(controller: Controller) -> dict[str, Json]:
    return {
        "@odata.context": "/redfish/v1/$metadata#Bios.Bios",
        "@odata.id": names.SETTINGS,
        "@odata.type": "#Bios.v1_2_0.Bios",
        "Actions": {"Oem": {"DellManager.v1_0_0#DellManager.ClearPending": {"target": names.CLEAR_PENDING}}},
        "AttributeRegistry": REGISTRY_ID,
        "Attributes": dict(controller.bios.pending),
        "Id": "Settings",
        "Name": "BIOS Configuration Pending Settings",
        "Oem": {"Dell": {"@odata.type": "#DellManager.v1_4_0.DellManager", "Jobs": link(controller.profile.jobs)}},
    }


def _entries(controller: Controller) -> dict[str, list[Json]]:
    """The registry's entries as they are now: ReadOnly is a state.

    Under lockdown nearly everything says so: 598 of 687 attributes of a recorded R750 (NVIDIA/libredfish).
    """
    bios = controller.bios
    attributes = (_TAG, *bios.generation.attributes)
    locked = mishaps.locked(controller)
    menus = dict.fromkeys(attribute.menu for attribute in bios.generation.attributes)
    return {
        "Attributes": [
            attribute.entry(100 + order) | ({"ReadOnly": True} if controller.is_locked_down or attribute.name in locked else {})
            for order, attribute in enumerate(attributes)
        ],
        "Dependencies": [dependency.entry() for dependency in bios.generation.dependencies],
        "Menus": [_menu(path, order) for order, path in enumerate(menus)],
    }


def _menu(path: str, order: int) -> dict[str, Json]:
    above, _, name = path.rpartition("/")
    return {
        "DisplayName": name.removesuffix("Ref"),
        "DisplayOrder": 100 + order,
        "MenuName": name,
        "MenuPath": "./" if above == "." else above,
        "ReadOnly": False,
    }


def _etag(body: Json) -> str:
    return f'"{hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]}"'


def _supported(controller: Controller) -> dict[str, str]:
    identity = controller.identity
    return {"FirmwareVersion": identity.bios_version, "ProductName": identity.model, "SystemId": identity.service_tag}


_TAG = registry.Attribute("SystemServiceTag", "./SysInformationRef", "System Service Tag", "", length=7, read_only=True)
_REGISTRY: dict[str, Json] = {
    "@odata.context": "/redfish/v1/$metadata#AttributeRegistry.AttributeRegistry",
    "@odata.id": f"{names.BIOS}/BiosRegistry",
    "@odata.type": "#AttributeRegistry.v1_3_6.AttributeRegistry",
    "Id": REGISTRY_ID,
    "Language": "en",
    "Name": "BIOS Attribute Registry",
    "OwningEntity": "Dell",
    "RegistryVersion": "1.0.0",
}
