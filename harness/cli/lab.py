"""``bringup lab``: the image of the virtual machine, and the machine kept for work by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import UsageMistake


def describe_faults(grade: str) -> list[str]:
    """One line a fault of a grade."""
    from harness.lab.catalogue import catalogue, qemu_catalogue

    if grade == "idrac":
        return _describe_idrac_faults()
    catalogues = {"model": catalogue, "qemu": qemu_catalogue}
    if grade not in catalogues:
        raise UsageMistake(f"no grade {grade!r} of the virtual lab: model, qemu or idrac")
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


PASSWORD_VARIABLE = "BRINGUP_LAB_PASSWORD"  # noqa: S105 - the name of a variable
"""Where the simulated iDRAC's password comes from, where somebody wants another than the model's own."""


def _describe_idrac_faults() -> list[str]:
    """One line a fault of the simulated iDRAC, with where it is known from."""
    from harness.lab.catalogue import idrac_catalogue

    faults = idrac_catalogue()
    width = max(len(fault.id) for fault in faults)
    return [f"{fault.id:{width}}  {fault.does}  ({fault.source})" for fault in faults]


def serve_idrac(profile: str, port: int, faults: Sequence[str], speed: float, tell: Callable[[str], None]) -> None:
    """Serve a simulated iDRAC until Ctrl-C. Raises UsageMistake for what is not known, BenchError for a taken port."""
    from harness.clock import WallClock
    from harness.lab.catalogue import catalogue, find, idrac_catalogue
    from harness.lab.idrac.alone import stand_alone
    from harness.lab.idrac.profile import find_profile
    from harness.lab.model import parts
    from harness.plugin.signals import orderly_ends

    chosen = find_profile(profile)
    wrong = find(faults, (*idrac_catalogue(), *catalogue()))
    if not 0 < speed <= 3600:
        raise UsageMistake(f"--speed {speed:g}: the machine's time runs more than 0 and at most 3600 times as fast as ours")
    own = os.environ.get(PASSWORD_VARIABLE, "")
    with orderly_ends(), stand_alone(chosen, wrong, port=port, speed=speed, password=own or parts.BMC_PASSWORD) as served:
        password = f"the value of {PASSWORD_VARIABLE} in the environment" if own else f"{parts.BMC_PASSWORD}   (the model's own)"
        tell(f"SIMULATED iDRAC {chosen.firmware} of a modelled {chosen.system}, service tag {parts.SERVICE_TAG}: no hardware")
        tell(f"url       {served.url}")
        tell(f"pin       {served.pin}")
        tell(f"user      {served.user}")
        tell(f"password  {password}")
        tell(f"faults    {', '.join(sorted(wrong)) or 'none'}")
        tell("end       Ctrl-C")
        clock = WallClock()
        while True:
            clock.sleep(3600)
