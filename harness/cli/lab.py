"""``bringup lab``: the image of the virtual machine, and the machine kept for work by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageMistake


def describe_faults(grade: str) -> list[str]:
    """One line a fault of a grade."""
    from harness.lab.catalogue import catalogue, qemu_catalogue

    catalogues = {"model": catalogue, "qemu": qemu_catalogue}
    if grade not in catalogues:
        raise UsageMistake(f"no grade {grade!r} of the virtual lab: model or qemu")
    faults = catalogues[grade]()
    width = max(len(fault.id) for fault in faults)
    lines = []
    for fault in faults:
        caught = "must fail nothing" if fault.caught_by is None else f"caught by {fault.caught_by} ({fault.blame.value})"
        lines.append(f"{fault.id:{width}}  {fault.does}  -> {caught}")
    return lines


def build(kernel: Path | None, initrd: Path | None) -> list[str]:
    """Make or adopt the image. Raises BenchError and UsageMistake with one line."""
    from harness.lab.qemu.image import adopt_image, build_image
    from harness.lab.qemu.tools import find_tools

    if (kernel is None) != (initrd is None):
        raise UsageMistake("--kernel and --initrd belong together: modules of one kernel do not fit another")
    if kernel is not None and initrd is not None:
        image, is_new = adopt_image(kernel, initrd), True
    else:
        image, is_new = build_image()
    tools = find_tools()
    return [
        f"{'made' if is_new else 'there already'}: {image.kernel.parent}",
        f"of: {image.origin}",
        f"runs with: {tools.qemu}, {tools.code}",
    ]


def up(faults: Sequence[str]) -> list[str]:
    """Keep a machine and say how it is reached."""
    from harness.lab.qemu.standing import start_standing

    start_standing(faults)
    return status()[0]


def status() -> tuple[list[str], bool]:
    """How the machine is reached, and whether there is one."""
    from harness.lab.qemu.standing import find_standing

    standing = find_standing()
    if standing is None:
        return ["no virtual machine is up; `bringup lab up` starts one"], False
    return [
        f"a virtual machine is up (process {standing.pid}), service tag {standing.service_tag}",
        f"bmc      {standing.bmc_url}",
        f"pin      {standing.pin}",
        f"login    {standing.user} / {standing.password}   (good for this machine only)",
        f"console  {standing.console_url}   (one client at a time; log in as root, no password)",
        "         or `bringup console virtual-r640`",
        f"ssh      {standing.ssh}",
        'power    it begins switched off: POST {"ResetType": "On"} to .../Actions/ComputerSystem.Reset',
        "end      bringup lab down",
    ], True


def down() -> str:
    """Take the machine away."""
    from harness.lab.qemu.standing import stop_standing

    return "the virtual machine is gone" if stop_standing() is not None else "no virtual machine was up"
