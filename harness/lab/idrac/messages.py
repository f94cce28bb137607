"""The messages of the simulated iDRAC: ids and severities as Dell's EEMI registry 2.9.0 has them, in words of our own.

The texts say nothing that a client may rely on; real firmware changes them from release to release, ids it keeps.
"""

from __future__ import annotations

REGISTRY, BASE = "IDRAC", "Base"
"""The registries that prefix ids in Redfish bodies; the application puts in the version of its profile. Dell's own job resources
give bare ids."""

_OK, _NOTE, _WARNING, _CRITICAL = "OK", "Informational", "Warning", "Critical"

MESSAGES: dict[str, tuple[str, str]] = {
    # the request
    "SYS403": (_CRITICAL, "Resource not found."),
    "SYS405": (_CRITICAL, "The JSON cannot be read."),
    "SYS407": (_WARNING, "Invalid query parameter."),
    "SYS413": (_NOTE, "Done."),
    "SYS414": (_NOTE, "Created."),
    "SYS415": (_WARNING, "User name or password is wrong."),
    "SYS416": (_WARNING, "No credentials given."),
    "SYS446": (_CRITICAL, "Internal error."),
    "SYS468": (_NOTE, "Authorization header and token together."),
    "SYS428": (_WARNING, "A required property is missing."),
    "RAC0218": (_NOTE, "All sessions are in use."),
    "LC060": (_WARNING, "The Lifecycle Controller is not ready yet."),
    "SWC0700": (_CRITICAL, "iDRAC is not ready yet."),
    # values
    "SYS409": (_WARNING, "An object value is incorrect."),
    "SYS410": (_WARNING, "Read only because of another attribute."),
    "SYS424": (_WARNING, "The value has the wrong type."),
    "SYS425": (_WARNING, "The value is invalid."),
    "SYS426": (_WARNING, "The value is none of the allowed ones."),
    "SYS427": (_WARNING, "The property is read only."),
    "SYS429": (_WARNING, "There is no such property."),
    "SYS448": (_WARNING, "The maintenance window is invalid."),
    # pending values and jobs
    "SYS011": (_WARNING, "Pending values are committed already."),
    "SYS406": (_NOTE, "Refused: system lockdown."),
    "JCP041": (_WARNING, "Job refused: system lockdown."),
    "BIOS008": (_NOTE, "Nothing is pending."),
    "BIOS010": (_NOTE, "The Lifecycle Controller is not enabled; no job was made."),
    "BIOS011": (_NOTE, "A job exists; pending values stay."),
    "BIOS012": (_NOTE, "Nothing pending to delete."),
    "JCP000": (_NOTE, "Job created."),
    "JCP001": (_NOTE, "Scheduled."),
    "JCP015": (_WARNING, "A running job is not deleted."),
    "JCP022": (_WARNING, "No such job."),
    "JCP024": (_NOTE, "Waiting for the Lifecycle Controller."),
    "JCP027": (_NOTE, "Job created on iDRAC."),
    "JCP036": (_NOTE, "Job deleted."),
    "JCP037": (_NOTE, "Job completed."),
    "JCP045": (_NOTE, "All jobs deleted."),
    "SUP020": (_NOTE, "Job deleted."),
    "PR19": (_NOTE, "Completed."),
    "PR20": (_NOTE, "In progress."),
    "PR21": (_WARNING, "Failed."),
    "JCP052": (_WARNING, "No progress; the job was given up."),
    "PR30": (_WARNING, "Initialization of the job failed."),
    "PR31": (_WARNING, "Completed with errors."),
    # power and boot
    "PSU501": (_NOTE, "Already on."),
    "PSU502": (_NOTE, "Already off."),
    "RAC0182": (_NOTE, "iDRAC was restarted."),
    "RAC0701": (_NOTE, "Power-up requested."),
    "RAC0702": (_NOTE, "Power cycle requested."),
    "RAC0703": (_NOTE, "Hard reset requested."),
    "RAC0704": (_NOTE, "Power-down requested."),
    "RAC0705": (_NOTE, "Graceful shutdown requested."),
    "RAC0706": (_NOTE, "NMI requested."),
    "SYS1000": (_NOTE, "Turning on."),
    "SYS1001": (_NOTE, "Turning off."),
    "SYS1003": (_NOTE, "CPU reset."),
    "OSE0003": (_NOTE, "The OS shut down."),
    "OSE1000": (_NOTE, "Boot completed."),
    "PST0080": (_WARNING, "Stopped at the F1/F2 prompt."),
    "UEFI0080": (_WARNING, "A PCIe link is slower than it could be."),
    "UEFI0134": (_WARNING, "Not enough MMIO space for a PCIe device."),
    "UEFI0256": (_CRITICAL, "Legacy I/O space is used up."),
    "UEFI0157": (_NOTE, "BIOS defaults were loaded."),
    "PR7": (_NOTE, "New device."),
    "PR8": (_WARNING, "Device not detected."),
    "LC080": (_NOTE, "Screenshot exported."),
    # users
    "USR0030": (_NOTE, "Logged in."),
    "USR0031": (_NOTE, "Log-in refused."),
    "USR0032": (_NOTE, "Logged off."),
    "USR0034": (_WARNING, "Too many refused log-ins; address blocked."),
}


def severity(message_id: str) -> str:
    """The severity of a bare id. Raises KeyError for an id that this lab does not know."""
    return MESSAGES[message_id][0]


def text(message_id: str) -> str:
    """Our words for a bare id. Raises KeyError for an id that this lab does not know."""
    return MESSAGES[message_id][1]


def full(message_id: str) -> str:
    """The id with its registry, still without version, e.g. ``IDRAC.SYS011``; ids with a registry pass as they are."""
    return message_id if "." in message_id else f"{REGISTRY}.{message_id}"


def bare(message_id: str) -> str:
    """The id without registry and version."""
    return message_id.rpartition(".")[2]
