"""What firmware and management controllers say, and what firmware is known to stumble over."""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.picture import Picture
from harness.procedures.analysis.diagnosis import Diagnosis, Severity


def judge_firmware(picture: Picture) -> Iterator[Diagnosis]:
    """What firmware and management controllers say, which is the first evidence where there is no boot."""
    for found in picture.firmware:
        yield Diagnosis(
            Severity.WARN if "option ROM" in found.rule else Severity.FAIL,
            "post",
            "firmware",
            f"firmware says that {found.rule}",
            found.line,
            "",
            "the GPUs ask for more than this firmware hands out: memory-mapped I/O, I/O space for bridges, option ROMs "
            "or bus numbers",
            "detach GPUs with the host off until it boots, then compare the windows of its host bridges with the need",
        )
    legacy = [function for function in picture.on_bus if function.kind == "0300"]
    if len(legacy) > 8:
        yield Diagnosis(
            Severity.WARN,
            "vga",
            f"{len(legacy)} GPUs",
            f"{len(legacy)} GPUs are of the VGA class, with legacy ranges and option ROMs",
            "",
            "",
            "legacy firmware tries to give each of them an option ROM below 1 MiB; machines have hung in POST above 13",
            "boot in UEFI mode with option ROMs of these slots off; cards of the 3D-controller class do not have this limit",
        )
