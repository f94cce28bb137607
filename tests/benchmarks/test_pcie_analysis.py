"""How fast a tree of twenty GPUs and a long kernel log are read and judged; the figures are printed, the limits are wider.

The goals: 20 GPUs with all bridges, 4096 bytes each, under 50 ms and faster than ``lspci -F -vvv`` prints them; 5 MB of dmesg
under 300 ms.
"""

import importlib.util
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from harness.devices.dumps.harvest import Format, Harvest
from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.devices.pcie import Function, decode_config
from harness.procedures.analysis.analysis import analyse

_SPEC = importlib.util.spec_from_file_location("made_of_bytes", Path(__file__).parents[1] / "devices" / "conftest.py")
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
LSPCI = shutil.which("lspci")


def tree_of_twenty():
    """Root port, host adapter, chassis switch, twenty ports and twenty GPUs, as bytes by address."""

    def port(kind, primary, secondary, last):
        builder = _MODULE.ConfigBytes(bridge=True, vendor=0x10B5, device=0x9797).power_management()
        builder.express(port=kind, slot=kind == 6, lnkcap=0x00177D03, lnksta=0x3103, sltsta=0x40).poke(
            0x18, bytes((primary, secondary, last))
        )
        return builder.aer(0x100).serial(0x148, 7).acs(0x160).dpc(0x1A0).raw()

    functions = {
        "0000:3a:00.0": port(4, 0x3A, 0x3B, 0x55),
        "0000:3b:00.0": port(5, 0x3B, 0x3C, 0x55),
        "0000:3c:00.0": port(6, 0x3C, 0x3D, 0x55),
        "0000:3d:00.0": port(5, 0x3D, 0x3E, 0x55),
    }
    for number in range(20):
        functions[f"0000:3e:{number:02x}.0"] = port(6, 0x3E, 0x3F + number, 0x3F + number)
        gpu = (
            _MODULE.ConfigBytes(device=0x1E30)
            .power_management()
            .express()
            .aer(0x100)
            .serial(0x148, number + 1)
            .rebar(0x1C0, (1, 6, 3, 2))
        )
        bars = (0xB0000000 + (number << 24), 0xC, 0x3820 + number, 0xC, 0x3840 + number, 0)
        functions[f"0000:{0x3F + number:02x}:00.0"] = gpu.poke(0x10, b"".join(bar.to_bytes(4, "little") for bar in bars)).raw()
    return functions


def as_hex(functions):
    rows = {
        bdf: "\n".join(f"{at:02x}: {raw[at : at + 16].hex(' ')}" for at in range(0, len(raw), 16)) for bdf, raw in functions.items()
    }
    return "".join(f"{bdf} Bus\n{text}\n\n" for bdf, text in rows.items())


def best_of(times, work):
    """The least of the times that a piece of work took, in seconds, and its last result."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        result = work()
        taken.append(time.perf_counter() - begun)
    return min(taken), result


def judge(functions):
    found = tuple(
        Function(
            bdf, "", class_code=f"{config.class_code:06x}", vendor=f"{config.vendor:04x}",
            device=f"{config.device:04x}", config=config, secondary_bus=config.raw[0x19] if config.header_type else None,
        )
        for bdf, raw in functions.items()
        for config in [decode_config(raw)]
    )  # fmt: skip
    return analyse(merge([Harvest(Format.SYSFS, "bytes", functions=found)]))


@pytest.mark.slow
def test_twenty_gpus_with_all_bridges_are_decoded_and_judged_in_no_time(capsys):
    functions = tree_of_twenty()
    seconds, analysis = best_of(5, lambda: judge(functions))
    assert len(analysis.picture.on_bus) == 20
    assert not analysis.failed
    with capsys.disabled():
        print(f"\n{len(functions)} functions of 4096 bytes decoded and judged in {seconds * 1000:.1f} ms (goal 50)")
    assert seconds < 0.5


@pytest.mark.slow
@pytest.mark.skipif(LSPCI is None, reason="lspci is missing: install pciutils to race it")
def test_the_same_tree_is_decoded_and_judged_faster_than_lspci_prints_it(tmp_path, capsys):
    file = tmp_path / "dump"
    functions = tree_of_twenty()
    file.write_text(as_hex(functions))
    judged, _ = best_of(5, lambda: judge(functions))
    theirs, _ = best_of(5, lambda: subprocess.run([LSPCI, "-F", file, "-vvv"], capture_output=True, check=True))
    ours, analysis = best_of(5, lambda: analyse(merge(read_dump("dump", file.read_bytes()))))
    assert len(analysis.picture.on_bus) == 20
    with capsys.disabled():
        print(f"\nfrom bytes {judged * 1000:.1f} ms, from their text {ours * 1000:.1f} ms; lspci -F -vvv {theirs * 1000:.1f} ms")
    assert judged < theirs
    assert ours < 3 * theirs


def long_log():
    """Five megabytes: a boot with many functions, and other subsystems' lines, as a busy machine has them."""
    lines = ["Linux version 6.1.0"]
    number = 0
    size = 0
    while size < 5_000_000:
        bdf = f"0000:{number // 32 % 16:02x}:{number % 32:02x}.0"  # 512 functions, whose buses are scanned again and again
        added = [
            f"pci {bdf}: [{'10de:1e30] type 00 class 0x030000' if number % 512 < 20 else '8086:2021] type 00 class 0x088000'}",
            f"pci {bdf}: reg 0x14: [mem 0x382000000000-0x38200fffffff 64bit pref]",
            f"pci {bdf}: BAR 13: no space for [io  size 0x1000]",
            f"pci {bdf}: BAR 1: assigned [mem 0x382000000000-0x38200fffffff 64bit pref]",
            *(f"systemd[1]: Started unit-{number}-{each}.service, a description of what it does." for each in range(4)),
            *(f"audit: type=1400 audit({number}.{each}:12): apparmor='STATUS' operation='profile_load'" for each in range(4)),
            f"EXT4-fs (nvme0n1p{number % 9}): mounted filesystem with ordered data mode. Quota mode: none.",
        ]  # fmt: skip
        lines += added
        size += sum(len(line) + 16 for line in added)
        number += 1
    return "".join(f"[{at / 100:12.6f}] {line}\n" for at, line in enumerate(lines))


@pytest.mark.slow
def test_a_kernel_log_of_five_megabytes_is_read_and_judged_in_no_time(capsys):
    data = long_log().encode()
    assert len(data) > 5_000_000
    seconds, analysis = best_of(3, lambda: analyse(merge(read_dump("dmesg", data))))
    assert not analysis.failed
    assert len(analysis.picture.snapshot.functions) == 512
    assert len(analysis.picture.on_bus) == 20
    with capsys.disabled():
        print(f"\n{len(data) / 1e6:.1f} MB of kernel log read and judged in {seconds * 1000:.0f} ms (goal 300)")
    assert seconds < 3
