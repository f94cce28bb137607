"""What the driver says in the kernel log, in its own lines and in Xids; and whom on the bus it does not see at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.devices.dumps.picture import Picture
from harness.devices.pcie.kernel_events import Event, Kind
from harness.devices.pcie.xids import meaning_of
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity

_OTHER_OWNERS = ("nouveau", "vfio-pci", "pci-stub", "xen-pciback")


def judge_driver_lines(picture: Picture) -> Iterator[Diagnosis]:
    """Lines of the driver in the kernel log, and of the kernel about the driver."""
    for bad in picture.snapshot.log.invalid_bars:
        yield Diagnosis(
            Severity.FAIL,
            "driver-bar",
            picture.label(bad.bdf),
            f"the driver refused the GPU: BAR {bad.bar} has no place",
            bad.line,
            picture.source_of(bad.line),
            "address space: 64-bit memory-mapped I/O for BAR 1 or 2, 32-bit for BAR 0",
            "raise the firmware's (or the virtual machine's) memory-mapped I/O window",
            (bad.bdf,),
            Link.DRIVER,
        )
    for event in picture.events:
        if event.kind in _LINES:
            yield _from_line(picture, event)


def judge_xids(picture: Picture) -> Iterator[Diagnosis]:
    """Xids by GPU and number, with how often, what it means and what to do."""
    counted: Counter[tuple[str, int]] = Counter((xid.address, xid.number) for xid in picture.snapshot.log.xids)
    first: dict[tuple[str, int], str] = {}
    for xid in picture.snapshot.log.xids:
        first.setdefault((xid.address, xid.number), xid.line)
    for (address, number), count in counted.items():
        meaning = meaning_of(number)
        bdf = f"{address}.0"
        severity = (
            Severity.FAIL
            if meaning.is_hardware
            else Severity.WARN
            if meaning.blame == "software" or number in (63, 92, 154)
            else Severity.NOTE
        )
        line = first[address, number]
        yield Diagnosis(
            severity,
            f"xid-{number}",
            picture.label(bdf),
            f"Xid {number}: {meaning.means}{f', {count} times' if count > 1 else ''}",
            line,
            picture.source_of(line),
            {"part": "the GPU", "link": "the way to the GPU", "software": "a program or the driver"}.get(meaning.blame, ""),
            meaning.do,
            (bdf,),
            Link.RUNTIME if severity is Severity.FAIL else Link.OTHER,
        )


def judge_views(picture: Picture) -> Iterator[Diagnosis]:
    """Bus against driver: who is on the bus and not seen by the driver, and the other way round."""
    bus = [function for function in picture.on_bus if function.vendor == "10de" and not function.is_gone]
    yield from _drivers(picture)
    if not picture.lists_driver:
        return
    seen = {gpu.address for gpu in picture.gpus if gpu.address}
    if picture.claimed is not None and len(seen) < picture.claimed:
        yield Diagnosis(
            Severity.WARN,
            "view",
            "nvidia-smi",
            f"it says that {picture.claimed} GPUs are attached and tells of {len(seen)}",
            "",
            "",
            "the output was cut, or asked for one GPU only",
            "mail the whole output of nvidia-smi -q -x",
        )
    if not bus or not picture.lists_bus or (seen and picture.claimed is not None and len(seen) < picture.claimed):
        return
    there = {function.bdf for function in bus}
    if seen and not seen & there:
        yield Diagnosis(
            Severity.WARN,
            "view",
            "the files",
            "no GPU of nvidia-smi is on the bus that the other files show",
            "",
            "",
            "they are from different machines, or from boots with other bus numbers",
            "mail files of one machine and one boot",
        )
        return
    for function in bus:
        if function.bdf not in seen:
            yield Diagnosis(
                Severity.FAIL,
                "view",
                picture.label(function.bdf),
                "it is on the bus and not in nvidia-smi",
                "",
                "",
                "the driver refused it, could not initialise it, or lost it; the kernel log says which",
                "read the lines of NVRM in dmesg",
                (function.bdf,),
                Link.VIEW,
            )


def _drivers(picture: Picture) -> Iterator[Diagnosis]:
    bus = [function for function in picture.on_bus if function.vendor == "10de" and not function.is_gone]
    bound = {function.driver for function in bus if function.driver}
    for function in bus:
        if function.driver in _OTHER_OWNERS:
            yield Diagnosis(
                Severity.WARN,
                "owner",
                picture.label(function.bdf),
                f"{function.driver} holds it, so the NVIDIA driver cannot",
                "",
                "",
                "meant so for a virtual machine; else a module that was loaded first",
                "blacklist that module, or unbind the device",
                (function.bdf,),
            )
        elif not function.driver and "nvidia" in bound:
            yield Diagnosis(
                Severity.FAIL,
                "bound",
                picture.label(function.bdf),
                "no driver is bound to it, and the NVIDIA driver is to its neighbours",
                "",
                "",
                "the driver refused it; the kernel log says why",
                "read the lines of NVRM in dmesg",
                (function.bdf,),
                Link.DRIVER,
            )


_LINES: dict[Kind, tuple[Severity, str, Link, str, str, str]] = {
    Kind.PROBE_FAILED: (
        Severity.FAIL,
        "bound",
        Link.DRIVER,
        "the driver refused the device (error {error})",
        "a BAR without a place, or a card it does not know",
        "read the lines just before it",
    ),
    Kind.PROBES_FAILED: (
        Severity.FAIL,
        "bound",
        Link.DRIVER,
        "the driver's probe {how} for {count} devices",
        "see the GPU's own lines",
        "compare lspci with nvidia-smi",
    ),
    Kind.NO_GPU: (
        Severity.FAIL,
        "bound",
        Link.DRIVER,
        "the driver found no GPU it can use",
        "none on the bus, or it refused them all",
        "compare with lspci -nn",
    ),
    Kind.INIT_FAILED: (
        Severity.FAIL,
        "init",
        Link.INIT,
        "bound but not initialised: RmInitAdapter failed ({codes})",
        "the GPU's firmware, its power, or its memory did not start",
        "power the chassis off and on; move the card; keep an nvidia-bug-report",
    ),
    Kind.GSP_FAILED: (
        Severity.FAIL,
        "init",
        Link.INIT,
        "the GPU's own processor (GSP) did not start",
        "firmware that does not fit the driver, or a card that hangs",
        "reload the driver with its own firmware files; power the chassis off and on",
    ),
    Kind.OFF_THE_BUS: (
        Severity.FAIL,
        "lost",
        Link.RUNTIME,
        "the GPU fell off the bus",
        "power, heat, or a link that dropped",
        "power machine and chassis off and on; reseat the card and swap its slot if it comes back",
    ),
    Kind.POWER_CABLE: (
        Severity.FAIL,
        "power",
        Link.INIT,
        "the GPU has not all of its power cables",
        "the card's auxiliary power",
        "power off and connect it",
    ),
    Kind.REGION_TAKEN: (
        Severity.FAIL,
        "owner",
        Link.DRIVER,
        "somebody else owns the GPU's registers",
        "another driver, or a boot framebuffer, holds BAR 0",
        "find it in /proc/iomem",
    ),
    Kind.RESIZE_FAILED: (
        Severity.WARN,
        "resize",
        Link.OTHER,
        "the driver could not make the aperture larger",
        "no space for a resized BAR 1 in the window above",
        "leave NVreg_EnableResizableBar off, or raise the window in the firmware's setup",
    ),
    Kind.PEER_LIMIT: (
        Severity.NOTE,
        "peer-limit",
        Link.OTHER,
        "a GPU takes eight peers at most, so this is expected above eight peers",
        "",
        "",
    ),
    Kind.IOMMU_FAULT: (
        Severity.WARN,
        "iommu",
        Link.OTHER,
        "the IOMMU refused an access of this device",
        "peer traffic under a translating IOMMU, or a stray access",
        "set the IOMMU to pass-through (iommu=pt) or off before any peer traffic",
    ),
}


def _from_line(picture: Picture, event: Event) -> Diagnosis:
    severity, check, link, what, cause, do = _LINES[event.kind]
    is_nvidia = event.words.get("driver", "nvidia").startswith("nvidia")
    function = picture.snapshot.by_bdf.get(event.bdf)
    if (
        event.kind is Kind.PROBE_FAILED
        and not is_nvidia
        and (function is None or not function.is_gpu)
        and event.words.get("driver") != "amdgpu"
    ):
        severity, link = Severity.WARN, Link.OTHER
    where = picture.label(event.bdf) if event.bdf else "the driver"
    parts = (event.bdf,) if event.bdf else ()
    told = what.format(**{"error": "", "how": "", "count": "", "codes": "", **event.words})
    return Diagnosis(severity, check, where, told, event.line, picture.source_of(event.line), cause, do, parts, link)
