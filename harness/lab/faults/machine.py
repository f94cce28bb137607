"""Faults of the BMC, the BIOS job and the boot, and what looks like a fault and is none.

Choices that need a word:

* **A lost answer.** When the answer to the settings PATCH is lost, a client cannot know whether it was taken and must not repeat
  it; it looks. Taken (``benign.patch-answer-lost``): a job is there, the run goes on, exactly one PATCH is sent. Not taken
  (``bios.reconcile``): neither values nor job are there, nothing can be reconciled, and the check of that name fails.
* **No job.** ``bios.job-before-reset`` takes the values, answers 200 without Location, makes no job, and answers a request for
  one with BIOS008 as if nothing were pending. The values stay pending.
* **A renamed network card.** ``boot.host-reach`` leaves the operating system alive, its login prompt on the console: the installed
  system's network configuration is to blame, which is the bench's, not the product's.
* **Reports against each other.** ``boot.power-after-ac``: AcPwrRcvry reads Last, the system's PowerRestorePolicy says AlwaysOff.
  Nothing in the lab may cut an unattended machine's power, so the two reports are compared.
* **A machine that is not free** (``bios.preflight-...``) is the bench's blame: it says nothing about the product.
* Faults of the boot stage act only on boots that carry no BIOS job.
"""

from __future__ import annotations

from harness.errors import Blame
from harness.lab.fault import Fault

_RULES = "field rules of the lab: what has gone wrong on benches before"

NO_SPACE = ("pcie.aperture", "gpu.nvml")
"""What fails while 64-bit windows are off, as they are as delivered: the GPUs have no space, the driver takes none of them."""

UNAPPLIED = ("boot.events", *NO_SPACE)
"""What fails where the settings were not applied and the machine was restarted: POST says UEFI0134 besides."""

_BMC = (
    Fault(
        "bmc.auth",
        "The BMC's password is not the one the bench refers to: the one attempt is refused.",
        "bmc.auth",
        "IPBlocking.1 of a recorded iDRAC9 6.00 (NVIDIA/libredfish): three wrong passwords block the client",
        Blame.BENCH,
    ),
    Fault(
        "bmc.auth.sessions",
        "All eight sessions of the BMC are taken by others: HTTP 503, RAC0218.",
        "bmc.auth",
        "bb-Ricardo/check_redfish#89 and #198: leaked sessions",
        Blame.BENCH,
    ),
    Fault(
        "bmc.tls",
        "The BMC shows another certificate than the pinned one.",
        "bmc.tls",
        "iDRAC makes itself a new certificate after a reset to defaults",
        Blame.BENCH,
    ),
    Fault(
        "bmc.identity",
        "Another machine answers at this address: its service tag is MODEL99.",
        "bmc.identity",
        "a re-cabled management switch or a reused address",
        Blame.BENCH,
    ),
    Fault(
        "bmc.continuity",
        "iDRAC restarts by itself while the BIOS job runs; the job goes on and completes. RAC0182 stands in the log.",
        "bmc.continuity",
        "dell/iDRAC-Redfish-Scripting#383",
    ),
    Fault(
        "bmc.firmware",
        "The iDRAC runs 7.00.00.00, which the platform denies.",
        "bmc.firmware",
        "dell/iDRAC-Redfish-Scripting#275: finished tasks are gone within seconds",
    ),
)

_BIOS = (
    Fault(
        "bios.preflight-lockdown",
        "System lockdown mode is on: every change is refused with SYS406.",
        "bios.preflight-lockdown",
        "a recorded iDRAC9 7.10 in lockdown (NVIDIA/libredfish, dell_multi_dpu)",
        Blame.BENCH,
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.preflight-lockdown.read-only-user",
        "The BMC's user may log in and look, and no more: every write is answered 403 InsufficientPrivilege.",
        "bios.preflight-lockdown",
        "Users.N.Privilege of recorded R750s (NVIDIA/libredfish); InsufficientPrivilege of DMTF's base message registry",
        Blame.BENCH,
        consequences=("boot.new-boot", *UNAPPLIED),
    ),
    Fault(
        "bios.preflight-lc",
        "Somebody left the host in the Lifecycle Controller (F10): ServerStatus LCUSC, a job would stay New with JCP024.",
        "bios.preflight-lc",
        "dell/iDRAC-Redfish-Scripting#108",
        Blame.BENCH,
        consequences=("boot.host-reach",),
    ),
    Fault(
        "bios.preflight-lc.disabled",
        "The Lifecycle Controller is switched off in its settings: no BIOS job can be made, BIOS010.",
        "bios.preflight-lc",
        "LCAttributes.1.LifecycleControllerState of recorded R750s (NVIDIA/libredfish); BIOS010 of Dell's EEMI registry",
        Blame.BENCH,
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.preflight-lc.occupied",
        "Somebody is logged in on the host: a restart would cut them off.",
        "bios.preflight-lc",
        _RULES,
        Blame.BENCH,
        NO_SPACE,
    ),
    Fault(
        "bios.preflight-pending",
        "Somebody else's value is pending (ProcX2Apic), without a job.",
        "bios.preflight-pending",
        "bmc-toolbox/bmclib pull 467: one pending set, shared by everybody",
        Blame.BENCH,
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.preflight-jobs",
        "Somebody else's RAID configuration job waits for the next reset.",
        "bios.preflight-jobs",
        "stackhpc/drac#2: BIOS and RAID jobs at one reset end in a loop",
        Blame.BENCH,
        consequences=NO_SPACE,
    ),
    Fault(
        "bios.reconcile",
        "The answer to the settings PATCH is lost, and nothing of it was taken.",
        "bios.reconcile",
        "ansible-collections/community.general#3826: ambiguous answers to writes",
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.job-before-reset",
        "The PATCH is answered 200 without Location: values are pending, no job exists, none can be made.",
        "bios.job-before-reset",
        "dell/terraform-provider-redfish#231",
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.job-state",
        "The job stays Scheduled for ever, from the reset on with PR30.",
        "bios.job-state",
        "NVIDIA/libredfish src/dell.rs, comment at get_job_state",
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.job-result",
        "The job ends at 100 % as CompletedWithErrors with PR31; one value was not set.",
        "bios.job-result",
        "JID_229700026199 of a recorded iDRAC9 7.10 (NVIDIA/libredfish, dell_multi_dpu)",
    ),
    Fault(
        "bios.readback",
        "The job completes with PR19, and one value (OsWatchdogTimer) is as before.",
        "bios.readback",
        "dell/iDRAC-Redfish-Scripting#186",
    ),
    Fault(
        "bios.events",
        "The settings are taken, and the first start with them logs UEFI0080 of a slow PCIe link.",
        "bios.events",
        "UEFI0080 of Dell's EEMI registry 2.9.0",
    ),
    Fault(
        "bios.attributes",
        "A wanted attribute (EmbVideo) differs and is read only here; what cannot be done whole is not begun.",
        "bios.attributes",
        "ReadOnly is state, not type: registries of recorded R750s with and without lockdown (NVIDIA/libredfish)",
        consequences=UNAPPLIED,
    ),
    Fault(
        "bios.version",
        "The BIOS is 2.4.7, which the platform denies.",
        "bios.version",
        "public report of an R740 with BIOS 2.4.7 and Tesla M10 GPUs",
    ),
)

_BOOT = (
    Fault(
        "boot.new-boot",
        "A reset is answered 204 and nothing happens.",
        "boot.new-boot",
        "redhat-performance/jetlag#245",
    ),
    Fault(
        "boot.post-halt",
        "POST stops at the F1/F2 prompt: ServerStatus HaltedF1/F2Prompt, PST0080 in the log.",
        "boot.post-halt",
        "DellLCService schema 7.10 and PST0080 of Dell's EEMI registry 2.9.0",
    ),
    Fault(
        "boot.post-progress",
        "POST stays in PCIResourceConfigStarted without an end.",
        "boot.post-progress",
        _RULES,
    ),
    Fault(
        "boot.loop",
        "POST runs out of legacy I/O space (UEFI0256) and starts again, for ever.",
        "boot.loop",
        "public report of an R740 with BIOS 2.4.7 and Tesla M10 GPUs",
    ),
    Fault(
        "boot.events",
        "The start passes, and the log tells UEFI0080 of a slow PCIe link.",
        "boot.events",
        "UEFI0080 of Dell's EEMI registry 2.9.0",
    ),
    Fault(
        "boot.power-after-ac",
        "The system reports PowerRestorePolicy AlwaysOff although AcPwrRcvry is Last.",
        "boot.power-after-ac",
        _RULES,
    ),
    Fault(
        "boot.console",
        "The console's baud rate is wrong: bytes come, none of them readable.",
        "boot.console",
        _RULES,
        Blame.BENCH,
    ),
    Fault(
        "boot.console.silent",
        "The console is on another port: not one byte comes.",
        "boot.console",
        "SOL and the rear connector of a 14G machine are different devices (ExtSerialConnector)",
        Blame.BENCH,
    ),
    Fault(
        "boot.host-reach",
        "A renamed network card: the console shows the login prompt, ssh is dead.",
        "boot.host-reach",
        "predictable interface names change with PCI bus numbers",
        Blame.BENCH,
    ),
)

_BENIGN = (
    Fault(
        "benign.pr7-events",
        "The log tells PR7 (new device) of every GPU that was just attached.",
        None,
        "PR7 of Dell's EEMI registry 2.9.0",
    ),
    Fault(
        "benign.extra-bios-reset",
        "The BIOS job resets the host once more than usual.",
        None,
        _RULES,
    ),
    Fault(
        "benign.patch-answer-lost",
        "The answer to the settings PATCH is lost, but everything was taken and the job is there.",
        None,
        "ansible-collections/community.general#3826: 400 or 403 although applied",
    ),
    Fault(
        "benign.csior-off",
        "The Lifecycle Controller collects no inventory on restart (CSIOR): the run warns and goes on.",
        None,
        "PR30 and RAC0772 of Dell's EEMI registry 2.9.0 tell to switch it on",
    ),
    Fault(
        "benign.old-shortage",
        "The start that carries the BIOS job logs UEFI0134 with the old settings right before the job ends.",
        None,
        "UEFI0134 of Dell's EEMI registry 2.9.0, a mere warning there",
    ),
    Fault(
        "benign.session-slow",
        "iDRAC answers one request with SWC0700 (not ready, as HTTP 400) and is well afterwards.",
        None,
        "quadsproject/badfish#129",
    ),
)

FAULTS: tuple[Fault, ...] = (*_BMC, *_BIOS, *_BOOT, *_BENIGN)
