"""The virtual machine as a QEMU command line: a switch with twenty endpoints behind it, a network card, and serial ports.

    pcie.0 ─ 01.0 root port ─ 00.0 x3130-upstream ─┬ 00.0 xio3130-downstream ─ 00.0 nvme     slot01
                                                   ├ 01.0 xio3130-downstream ─ 00.0 nvme     slot02
                                                   └ ...
           ├ 02.0 network card                       (or, with a fault, behind a root port: on another bus)
           └ 1f.0 two serial ports: the console, and one that nobody listens to

Each endpoint is an NVMe controller with a 16 GiB persistent-memory region behind BAR 4: the one device of QEMU that is a PCIe
endpoint, has a large 64-bit prefetchable BAR and no I/O BAR. The memory is a sparse file that nothing writes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.lab.qemu import faults, pcie_faults
from harness.lab.qemu.door import LOOPBACK, Door, make_door
from harness.lab.qemu.image import Image
from harness.lab.qemu.tools import Tools

ENDPOINTS = 20
BAR = "16G"
ABSENT = 8
"""The number of the slot that the fault of an absent endpoint leaves empty."""

_WIDE, _NARROW, _NONE = 42, 38, 36
"""Physical address bits. OVMF 2022.11 sizes its 64-bit window by them: with 42 all twenty BARs of 16 GiB have a place, with 38 and
with 36 the window has 32 GiB, so that it places two and leaves the other eighteen to a kernel that finds no space either. Each bit
more doubles the page tables that OVMF makes before it says a word: 44 cost three seconds of two-core emulation more than 42."""

_WINDOW_MIB = 512 << 10
"""The 64-bit window that goes with _WIDE, asked for by name because firmware older than 2022.11 does not size it by itself."""

MEMORY_MIB = 1024
SERVICE_TAG = "VIRT001"
_COMMAND_LINE = "console=ttyS0,115200"


@dataclass(frozen=True)
class Board:
    """What stays the same from power-on to power-on: programs, image, where the machine keeps its files, the way in over ssh."""

    tools: Tools
    image: Image
    folder: Path
    door: Door

    @property
    def initrd(self) -> Path:
        """The image's file system with the machine's own part laid over it."""
        return self.folder / "initrd"


def prepare_board(tools: Tools, image: Image, folder: Path) -> Board:
    """Write the files that QEMU needs: an empty variable store, keys, the file system. Raises BenchError."""
    board = Board(tools, image, folder, make_door(tools.keygen, folder))
    (folder / "vars.fd").write_bytes(tools.variables.read_bytes())
    board.initrd.write_bytes(image.initrd.read_bytes() + board.door.overlay())
    return board


@dataclass(frozen=True)
class Lines:
    """File descriptors of the sockets that a QEMU is given: its console, its second serial port, its monitor."""

    console: int
    aside: int
    monitor: int


def address_bits(bios: Mapping[str, object], switched_on: frozenset[str]) -> int:
    """How much firmware and kernel can address, by the BIOS attributes in effect.

    MmioAbove4Gb is modelled so because OVMF has no such setting: without it a machine has hardly any space above 4 GiB to give.
    """
    if bios.get("MmioAbove4Gb") == "Disabled":
        return _NONE
    return _NARROW if faults.WINDOW in switched_on else _WIDE


def command(board: Board, bits: int, switched_on: frozenset[str], lines: Lines, *, boots: bool) -> list[str]:
    """QEMU's command line; ``boots`` False leaves the firmware alone.

    Software emulation always, so that every host sees the same machine: about thirteen seconds to a login on two cores. Without
    pdpe1gb OVMF spends minutes on page tables.
    """
    tools, folder = board.tools, board.folder
    line = [tools.qemu, "-name", "bringup-lab", "-machine", "q35", "-accel", "tcg,thread=multi"]
    line += ["-cpu", f"qemu64,+pdpe1gb,phys-bits={bits}", "-m", str(MEMORY_MIB), "-smp", "1", "-nodefaults", "-display", "none"]
    line += ["-smbios", f"type=1,manufacturer=QEMU,product=virtual R640,serial={SERVICE_TAG}"]
    line += ["-action", "reboot=shutdown"]  # each start is a new process, so that BIOS settings can take effect
    if bits >= _WIDE:
        line += ["-fw_cfg", f"name=opt/ovmf/X-PciMmio64Mb,string={_WINDOW_MIB}"]
    line += ["-drive", f"if=pflash,format=raw,readonly=on,file={tools.code}"]
    line += ["-drive", f"if=pflash,format=raw,file={folder}/vars.fd"]
    line += ["-chardev", f"socket,id=serial,fd={lines.console}", "-serial", "chardev:serial"]
    line += ["-chardev", f"socket,id=aside,fd={lines.aside}", "-serial", "chardev:aside"]
    line += ["-chardev", f"socket,id=monitor,fd={lines.monitor}", "-mon", "chardev=monitor,mode=control"]
    if boots:
        line += _boot(board, switched_on)
    return line + _tree(folder, switched_on) + _network(board.door, switched_on) + list(pcie_faults.rig(switched_on).options)


def _boot(board: Board, switched_on: frozenset[str]) -> list[str]:
    if faults.HALT in switched_on:
        return []
    kernel, append = board.image.kernel, _COMMAND_LINE
    if faults.KERNEL in switched_on:
        kernel = board.folder / "damaged-vmlinuz"
        kernel.write_bytes(damage(board.image.kernel.read_bytes()))
    if faults.PANIC in switched_on:
        append = f"{append} rdinit=/missing init=/missing panic=0"
    if faults.WRONG_PORT in switched_on:
        append = f"{append} lab.numbers"
    append = " ".join([append, *pcie_faults.rig(switched_on).kernel])
    return ["-kernel", str(kernel), "-initrd", str(board.initrd), "-append", append]


def _network(door: Door, switched_on: frozenset[str]) -> list[str]:
    """A card on which only this host's loopback calls; nothing leads out. Its number is its place, see ``recipe.NETWORK_CARD``."""
    line = ["-netdev", f"user,id=network,restrict=on,hostfwd=tcp:{LOOPBACK}:{door.port}-:22"]
    place = "bus=pcie.0,addr=2.0"
    if faults.SSH_DEAD in switched_on:
        line += ["-device", "pcie-root-port,id=aside,bus=pcie.0,addr=3.0,chassis=3,slot=21"]
        place = "bus=aside"
    return [*line, "-device", f"vmxnet3,id=card,netdev=network,romfile=,{place}"]


def damage(kernel: bytes) -> bytes:
    """A kernel that firmware still starts: the compressed part is broken in its middle, the loader before it is whole."""
    middle = len(kernel) // 2
    hole = 65536
    return kernel[:middle] + b"\xa5" * hole + kernel[middle + hole :]


def _tree(folder: Path, switched_on: frozenset[str]) -> list[str]:
    empty = pcie_faults.rig(switched_on).empty | ({ABSENT} if faults.ABSENT in switched_on else set())
    line = ["-device", "pcie-root-port,id=root,bus=pcie.0,addr=1.0,chassis=1,slot=1", "-device", "x3130-upstream,id=up,bus=root"]
    for number in range(1, ENDPOINTS + 1):
        port = number - 1
        line += ["-device", f"xio3130-downstream,id=port{number:02d},bus=up,chassis=2,slot={number},addr={port:x}.0"]
        backing = f"memory-backend-file,id=memory{number:02d},share=on,mem-path={folder}/bar{number:02d},size={BAR}"
        line += ["-object", backing]
        if number in empty:
            continue
        line += ["-device", f"nvme,id=part{number:02d},bus=port{number:02d},serial=VIRT{number:04d},pmrdev=memory{number:02d}"]
    return line
