"""What ``nvidia-smi`` says of each GPU: lost, memory, fabric, recovery, throttles, link; and of pairs of them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.harvest import DriverGpu
from harness.devices.dumps.picture import Picture
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity
from harness.units import amount


def judge_gpus(picture: Picture) -> Iterator[Diagnosis]:
    """Every GPU of nvidia-smi: lost, memory, fabric, recovery, throttles."""
    for gpu in picture.gpus:
        where = _where(picture, gpu)
        for judge in (_presence, _retirement, _errors, _state, _link):
            yield from judge(gpu, where)
    yield from _apertures(picture)
    for matrix in picture.matrices:
        bad = [
            f"{row} to {column}: {cell}"
            for (row, column), cell in matrix.cells.items()
            if cell in ("CNS", "GNS", "TNS", "NS", "DR", "U")
        ]
        if bad and matrix.what == "peer access":
            yield Diagnosis(
                Severity.WARN,
                "peer-access",
                f"{len(bad)} pairs",
                "the driver offers no peer access between some GPUs",
                "; ".join(bad[:6]),
                "",
                "the chipset, the tree or the driver's settings (CNS chipset, GNS GPU, TNS topology, NS not supported, DR "
                "disabled by a registry key)",
                "check where these GPUs sit in the tree; OK here does not exclude a fault of ACS",
            )


def _where(picture: Picture, gpu: DriverGpu) -> str:
    where = picture.label(gpu.address) if gpu.address else gpu.name or gpu.uuid
    return f"{where}, serial {gpu.serial}" if gpu.serial else where


def _parts(gpu: DriverGpu) -> tuple[str, ...]:
    return (gpu.address,) if gpu.address else ()


def _presence(gpu: DriverGpu, where: str) -> Iterator[Diagnosis]:
    """Does it still answer?"""
    parts = _parts(gpu)
    if gpu.lost:
        yield Diagnosis(
            Severity.FAIL,
            "lost",
            where,
            "the driver has lost this GPU",
            gpu.lost,
            gpu.source,
            "it fell off the bus after the driver had started it: power, heat, or its link",
            "read the kernel log for Xid 79, then cold-start machine and chassis; swap the card's slot if it comes back",
            parts,
            Link.RUNTIME,
        )


def _retirement(gpu: DriverGpu, where: str) -> Iterator[Diagnosis]:
    """Pages and rows of memory that were, or wait to be, taken out of use."""
    parts = _parts(gpu)
    if gpu.retirement_pending:
        yield Diagnosis(
            Severity.FAIL,
            "retirement",
            where,
            "a page of memory waits to be retired",
            f"Retired pages: {gpu.retired_single} single bit, {gpu.retired_double} double bit, pending: Yes",
            gpu.source,
            "ECC found bad memory; programs can still hit it",
            "drain the GPU and reset it; replace it if pages keep coming",
            parts,
        )
    elif (gpu.retired_single or 0) + (gpu.retired_double or 0) > 0:
        many = (gpu.retired_single or 0) + (gpu.retired_double or 0) >= 60
        yield Diagnosis(
            Severity.WARN,
            "retirement",
            where,
            f"{gpu.retired_single} pages were retired for single-bit and {gpu.retired_double} for double-bit errors",
            "",
            gpu.source,
            "worn memory" + ("; few pages are left to retire (64 at most)" if many else ""),
            "plan to replace this card" if many else "watch the counts",
            parts,
        )
    if gpu.remap_failed:
        yield Diagnosis(
            Severity.FAIL,
            "remap",
            where,
            "a row of memory could not be remapped",
            "Remapping Failure Occurred: Yes",
            gpu.source,
            "no spare rows are left",
            "replace the card",
            parts,
        )
    if gpu.remap_pending:
        yield Diagnosis(
            Severity.FAIL,
            "remap",
            where,
            "a row of memory waits to be remapped",
            "Remapped Rows Pending: Yes",
            gpu.source,
            "ECC found bad memory",
            "drain the GPU and reset it",
            parts,
        )


def _errors(gpu: DriverGpu, where: str) -> Iterator[Diagnosis]:
    """Errors of memory that ECC could not correct."""
    parts = _parts(gpu)
    if gpu.uncorrected:
        yield Diagnosis(
            Severity.FAIL,
            "ecc",
            where,
            f"{gpu.uncorrected} uncorrectable memory errors since the driver was loaded",
            "",
            gpu.source,
            "bad memory",
            "reset the GPU, test its memory, replace it if they come back",
            parts,
        )
    elif gpu.uncorrected_ever:
        yield Diagnosis(
            Severity.WARN,
            "ecc",
            where,
            f"{gpu.uncorrected_ever} uncorrectable memory errors in its life, none since the driver was loaded",
            "",
            gpu.source,
            "bad memory that was retired or remapped",
            "watch the count",
            parts,
        )


def _state(gpu: DriverGpu, where: str) -> Iterator[Diagnosis]:
    """Its fabric, what the driver wants done to it, and what holds its clocks down."""
    parts = _parts(gpu)
    if gpu.fabric:
        yield Diagnosis(
            Severity.FAIL,
            "fabric",
            where,
            f"its NVLink fabric is not healthy: {gpu.fabric}",
            "",
            gpu.source,
            "an NVLink or NVSwitch route, or the fabric manager",
            "read the fabric manager's log; reset GPUs and switches together",
            parts,
        )
    if gpu.recovery:
        yield Diagnosis(
            Severity.FAIL,
            "recovery",
            where,
            f"the driver wants a recovery action: {gpu.recovery}",
            "",
            gpu.source,
            "an earlier error",
            "do it, and look for the Xid before it",
            parts,
        )
    if gpu.throttles:
        yield Diagnosis(
            Severity.WARN,
            "throttle",
            where,
            f"clocks are held down: {', '.join(gpu.throttles)}",
            "",
            gpu.source,
            "cooling or power",
            "check fans, air and the power cables",
            parts,
        )


def _link(gpu: DriverGpu, where: str) -> Iterator[Diagnosis]:
    """The lanes of its link, as far as one end can tell."""
    parts = _parts(gpu)
    if gpu.width and gpu.width_most and gpu.width < gpu.width_most:
        yield Diagnosis(
            Severity.WARN,
            "width",
            where,
            f"its link has x{gpu.width} of the card's x{gpu.width_most} lanes",
            "",
            gpu.source,
            "a slot or a virtual machine with fewer lanes, or a degraded link: the port above is not in nvidia-smi",
            "compare both ends in lspci -vvv",
            parts,
        )


def _apertures(picture: Picture) -> Iterator[Diagnosis]:
    """GPUs of one name whose apertures differ."""
    for name in {gpu.name for gpu in picture.gpus if gpu.name}:
        alike = [gpu for gpu in picture.gpus if gpu.name == name and gpu.aperture]
        most = max((gpu.aperture or 0 for gpu in alike), default=0)
        for gpu in alike:
            if gpu.aperture is not None and gpu.aperture < most:
                (has, wants), unit = amount(gpu.aperture, most, unit="B")
                yield Diagnosis(
                    Severity.FAIL,
                    "aperture",
                    picture.label(gpu.address),
                    f"its aperture (BAR1) is {has} {unit}, that of its like {wants} {unit}",
                    "",
                    gpu.source,
                    "too little 64-bit address space, or another display mode",
                    "compare the windows above; read the mode with the vendor's tool",
                    (gpu.address,),
                    Link.BARS,
                )
