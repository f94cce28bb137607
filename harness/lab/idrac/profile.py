"""Generations of iDRAC: what differs from one to the next, as data.

                       3.15 (14G)     7.00 (14G)     7.10 (15G)     iDRAC10 (17G)
    settings           two steps      one or two     one or two     one or two, OnReset only
    jobs               Managers/Jobs  Oem/Dell/Jobs  Oem/Dell/Jobs  Oem/Dell/Jobs
    DMTF's JobService  no             yes            yes            yes
    Location of a job  Managers/Jobs  Tasks          Tasks          TaskMonitors
    a task outlives    10 s           10 s           10 min         10 min
    restart by         GracefulR.     both           both           both
    BootProgress       no             yes            yes            yes
    LC service         /v1/Dell/...   linked         linked         linked
    If-Match           ignored        ETag           ETag           412 on actions

Sources: sailfishdell/sailfish (R740, iDRAC9 3.15.15.15), djsincla/GroundZero (R740xd, 7.00.00.182), NVIDIA/libredfish
tests/mockups/dell_multi_dpu (R750, 7.10.30.00), and for iDRAC10, of which no whole capture is public, the ways that
dell/terraform-provider-redfish and NVIDIA/libredfish take with it. What no source tells stands as in the generation before.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageMistake
from harness.lab.idrac import names

ALL_RESETS = (
    "On",
    "ForceOff",
    "ForceRestart",
    "GracefulRestart",
    "GracefulShutdown",
    "PushPowerButton",
    "Nmi",
    "PowerCycle",
)
"""ResetType@Redfish.AllowableValues of public R650 5.10 and R750 6.00 and 7.10 captures."""

OLD_RESETS = ("On", "ForceOff", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi")
"""The same of the R740 with 3.15 (sailfishdell/sailfish): no ForceRestart."""

WINDOWS = ("OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset")
"""SupportedApplyTimes of iDRAC9 5.10 to 7.10, a 14G one with 7.00.00.182 among them (djsincla/GroundZero); never Immediate."""


@dataclass(frozen=True)
class Profile:
    """One generation. Times in seconds; versions as the machine writes them; ``generation`` picks the BIOS attributes.

    ``location`` is the collection that the Location of a new job points into. ``attributes_at`` is the pattern of iDRAC's own
    attributes. ``scp_actions`` is the prefix of the configuration profile's action keys and ``scp_target`` that of their paths.
    """

    name: str
    generation: str
    system: str
    manager: str
    firmware: str
    bios: str
    redfish: str
    messages: str
    base: str
    apply_times: tuple[str, ...] = WINDOWS
    resets: tuple[str, ...] = ALL_RESETS
    location: str = names.TASKS
    jobs: str = names.DELL_JOBS
    sessions: str = names.SESSIONS
    lc_service: str = names.LC_SERVICE
    attributes_at: str = f"{names.MANAGER}/Oem/Dell/DellAttributes/{{id}}"
    task_life: float = 10.0
    has_job_service: bool = True
    has_boot_progress: bool = True
    has_device_interface: bool = True
    qualifies_firmware: bool = True
    refuses_match_on_actions: bool = False
    scp_actions: str = "#OemManager"
    scp_target: str = "EID_674_Manager"


OLD = Profile(
    name="idrac9-3.15-14g",
    generation="14G early",
    system="PowerEdge R640",
    manager="14G Monolithic",
    firmware="3.15.15.15",
    bios="1.5.6",
    redfish="1.0.2",
    messages="IDRAC.1.5",
    base="Base.1.0",
    apply_times=(),
    resets=OLD_RESETS,
    location=names.OLD_JOBS,
    jobs=names.OLD_JOBS,
    sessions=f"{names.ROOT}/Sessions",
    lc_service=names.OLD_LC_SERVICE,
    attributes_at=f"{names.ROOT}/Managers/{{id}}/Attributes",
    has_job_service=False,
    has_boot_progress=False,
    has_device_interface=False,
    qualifies_firmware=False,
    scp_actions="OemManager.v1_0_0#OemManager",
)

DEFAULT = Profile(
    name="idrac9-7.00-14g",
    generation="14G",
    system="PowerEdge R640",
    manager="14G Monolithic",
    firmware="7.00.00.182",
    bios="2.21.2",
    redfish="1.17.0",
    messages="IDRAC.2.8",
    base="Base.1.12",
)
"""The machine of the virtual lab. Its task goes "seconds" after its job (dell/iDRAC-Redfish-Scripting#275)."""

PROFILES: tuple[Profile, ...] = (
    OLD,
    DEFAULT,
    Profile(
        name="idrac9-7.10-15g",
        generation="15G",
        system="PowerEdge R750",
        manager="15G Monolithic",
        firmware="7.10.30.00",
        bios="1.13.2",
        redfish="1.18.0",
        messages="IDRAC.2.9",
        base="Base.1.17",
        task_life=600.0,
    ),
    Profile(
        name="idrac10",
        generation="17G",
        system="PowerEdge R670",
        manager="17G Monolithic",
        firmware="1.20.50.52",
        bios="1.3.2",
        redfish="1.20.1",
        messages="IDRAC.3.0",
        base="Base.1.19",
        apply_times=("OnReset",),
        location=names.TASK_MONITORS,
        task_life=600.0,
        refuses_match_on_actions=True,
        scp_target="OemManager",
    ),
)


def find_profile(name: str) -> Profile:
    """The profile of that name. Raises UsageMistake for an unknown one, naming those there are."""
    found = next((profile for profile in PROFILES if profile.name == name), None)
    if found is None:
        raise UsageMistake(f"no profile {name!r} of the simulated iDRAC; there are {', '.join(each.name for each in PROFILES)}")
    return found
