"""From the bytes of a file to what its pieces give: unpack, cut into sections, recognise each.

    bytes ─ gzip, bzip2, xz ─┬─ tar ─ members ─ each of them again
                             └─ text ─ XML documents cut out ─ sections between rules ("_____", "####") ─ parsers

A whole bug report (nvidia-bug-report.log.gz) is such a text; so is what somebody pasted together. A section may hold several
formats; each parser takes its own lines and passes over the rest.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from harness.devices.dumps import lspci_machine, lspci_tree
from harness.devices.dumps.firmware import parse_dmidecode, parse_firmware_log
from harness.devices.dumps.harvest import Harvest
from harness.devices.dumps.kernel_tree import parse_kernel_tree
from harness.devices.dumps.lspci import parse_lspci
from harness.devices.dumps.lspci_tree import parse_lspci_tree
from harness.devices.dumps.nvidia_smi import parse_smi_query, parse_smi_table, parse_smi_topology, parse_smi_xml
from harness.devices.dumps.sysfs import SysfsFiles
from harness.devices.dumps.topology_xml import parse_hwloc, parse_nccl
from harness.devices.dumps.udev import parse_udev
from harness.devices.dumps.xml_salvage import read_xml
from harness.devices.pcie import Unread
from harness.errors import UsageMistake

LARGEST = 1 << 29
_MOST_MEMBERS = 200_000
_LARGEST_ATTRIBUTE = 1 << 16
_KNOWN = (
    "lspci (-nn, -vvv, -xxxx, -tv, -mm), dmesg or a journal, nvidia-smi (-q, -q -x, topo -m), hwloc or NCCL "
    "topology XML, a tar of /sys, "
    "udevadm info --export-db, dmidecode, an nvidia-bug-report"
)
_OPENING = re.compile(r"<(?P<tag>nvidia_smi_log|topology|system)(?=[\s>])(?P<told> version)?")
_RULE = re.compile(r"^(?:_{20,}|#{20,}|-{40,}|\*{20,})[^\n]*$", re.MULTILINE)
_SMI_TABLE = re.compile(
    r"NVIDIA-SMI (?:\d|has failed)|Unable to determine the device handle for|^No devices were found|^GPU \d+: .*\(UUID: GPU-",
    re.MULTILINE,
)
_TOPOLOGY = re.compile(r"^[ \t]*(?:\x1b\[[0-9;]*m)?[ \t]*GPU0[ \t]+(?:GPU1|CPU Affinity|NIC0|mlx)", re.MULTILINE)
_SMI_WORDS = ("NVIDIA-SMI ", "Unable to determine the device handle", "No devices were found", "(UUID: GPU-")
_STAMPED = re.compile(
    r"^(?:(?:<\d+>|[a-z]+ *:[a-z]+ *: )?\[ *\d+\.\d+\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\]"
    r"|(?:[a-z]+ *:[a-z]+ *: )?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d+,\d+,\d+,[^;\n]{1,8};"
    r"|[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ [^:\s]+: |(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* .*kernel: )",
    re.MULTILINE,
)
_LOG_MARKS = "[;TkpNv{"
"""Every line of a kernel log has one of these letters, and a dump of bytes has none of them."""
_KERNEL = re.compile(
    r"^(?:pci|pcieport|pci_bus|nvidia|vfio-pci|amdgpu|nvme|pnp) [0-9a-f]{2,8}[: ]|^NVRM: |^pcieport "
    r"|^\{\d+\}\[Hardware Error\]|^nvidia: probe of ",
    re.MULTILINE,
)


def read_dump(name: str, data: bytes) -> tuple[Harvest, ...]:
    """Everything that a file gives, in its order.

    Raises UsageMistake with one line where the file is empty, damaged, too large, or nothing in it is known.
    """
    if not data:
        raise UsageMistake(f"{name}: the file is empty")
    found = tuple(_unpack(name, data, 0))
    if not found:
        raise UsageMistake(f"{name}: nothing in it is known; known are: {_KNOWN}")
    return found


def _unpack(name: str, data: bytes, depth: int) -> Iterator[Harvest]:
    if depth > 4:
        raise UsageMistake(f"{name}: packed more than four times")
    if (unpacker := _unpacker_for(data)) is not None:
        unpacked, is_whole = _decompress(name, data, unpacker)
        cut = () if is_whole else (Unread("the end of the file", f"{name} is cut off or damaged", "mail it again"),)
        for harvest in _unpack(name, unpacked, depth + 1):
            yield replace(harvest, unread=(*harvest.unread, *cut))
    elif data[257:262] == b"ustar":
        yield from _read_tar(name, data, depth)
    else:
        yield from _read_text(name, data.decode("utf-8", "replace"))


class _Unpacker(Protocol):
    """What the unpackers of the standard library have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /, max_length: int = ...) -> bytes:
        """At most so many bytes of what the data unpack to."""


def _unpacker_for(data: bytes) -> Callable[[], _Unpacker] | None:
    """What unpacks data that begin so; None where they are not packed."""
    if data.startswith(b"\x1f\x8b"):
        return lambda: zlib.decompressobj(wbits=31)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor
    if data.startswith(b"\xfd7zXZ\x00"):
        return lambda: lzma.LZMADecompressor(memlimit=1 << 28)
    return None


def _decompress(name: str, data: bytes, unpacker: Callable[[], _Unpacker]) -> tuple[bytes, bool]:
    """The unpacked content as far as it goes, and whether it is whole."""
    pieces, size, rest, is_whole = [], 0, data, True
    try:
        while rest:
            unpacking = unpacker()
            piece = unpacking.decompress(rest, LARGEST + 1 - size)
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise UsageMistake(f"{name}: unpacks to more than {LARGEST >> 20} MiB; cut out what matters")
            is_whole = unpacking.eof
            if not is_whole:
                break
            rest = unpacking.unused_data
    except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError) as error:
        if not size:
            raise UsageMistake(f"{name}: the packed file is damaged: {error}") from error
        is_whole = False
    if not size:
        raise UsageMistake(f"{name}: the packed file is cut off before its first byte")
    return b"".join(pieces), is_whole


def _read_tar(name: str, data: bytes, depth: int) -> Iterator[Harvest]:
    sysfs = SysfsFiles()
    others: list[tuple[str, bytes]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for number, member in enumerate(tar):
                if number >= _MOST_MEMBERS:
                    raise UsageMistake(f"{name}: more than {_MOST_MEMBERS} members; pack only /sys/bus/pci and /sys/devices/pci*")
                if member.issym():
                    sysfs.add_link(member.name, member.linkname)
                elif member.isfile() and sysfs.wants(member.name) and member.size <= _LARGEST_ATTRIBUTE:
                    sysfs.add(member.name, _content(tar, member))
                elif (
                    member.isfile() and 0 < member.size <= LARGEST >> 2 and not re.search(r"(?:^|/)(?:sys|proc|dev)/", member.name)
                ):
                    others.append((member.name, _content(tar, member)))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        if not sysfs.files and not others:
            raise UsageMistake(f"{name}: the tar is damaged: {error}") from error
    if sysfs.files:
        yield sysfs.harvest(name)
    for member_name, content in others:
        try:
            yield from _unpack(f"{name}:{member_name}", content, depth + 1)
        except UsageMistake:
            continue  # one member of many that nobody can read; the others tell what they can


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = tar.extractfile(member)
    return b"" if opened is None else opened.read()


def _read_text(name: str, text: str) -> Iterator[Harvest]:
    text = text.replace("\r\n", "\n")
    rest = []
    position = 0
    for document in _documents(text):
        yield from _read_document(name, document.tag, text[document.start : document.end])
        rest.append(text[position : document.start])
        position = document.end
    rest.append(text[position:])
    yield from _read_sections(name, "\n".join(rest))


@dataclass(frozen=True)
class _Document:
    """A document of XML in a text: its outermost tag, where it begins and where it ends, be that its own end or a cut."""

    tag: str
    start: int
    end: int


def _documents(text: str) -> Iterator[_Document]:
    """The documents of a text, also one without an end: that one goes on to the next rule, or to the end of the text.

    Each closing tag that is not there is looked for once, so that a text of openings alone takes no longer than others.
    """
    position = 0
    unclosed: set[str] = set()
    while (opening := _OPENING.search(text, position)) is not None:
        tag = opening["tag"]
        closing = f"</{tag}>"
        end = -1 if tag in unclosed else text.find(closing, opening.end())
        if end >= 0:
            position = end + len(closing)
            yield _Document(tag, opening.start(), position)
            continue
        unclosed.add(tag)
        position = opening.end()
        if tag == "nvidia_smi_log" or opening["told"]:
            rule = _RULE.search(text, opening.start())
            position = len(text) if rule is None else rule.start()
            yield _Document(tag, opening.start(), position)


def _read_sections(name: str, rest: str) -> Iterator[Harvest]:
    sections = _RULE.split(rest) if any(rule in rest for rule in ("_" * 20, "#" * 20, "-" * 40, "*" * 20)) else [rest]
    for number, section in enumerate(sections, start=1):
        source = name if len(sections) == 1 else f"{name}:{number}"
        yield from _read_section(source, section)


def _read_document(name: str, tag: str, text: str) -> Iterator[Harvest]:
    """What a document gives; of one that was cut off or damaged what stands before, and that it was."""
    read = read_xml(name, text)
    if read.root is None:
        raise UsageMistake(f"{name}: the XML in it is {read.cut}")
    match tag:
        case "nvidia_smi_log":
            found = parse_smi_xml(read.root, name)
        case "topology":
            found = parse_hwloc(read.root, name)
        case _:
            found = parse_nccl(read.root, name)
    if not read.cut:
        yield found
    elif found.functions or found.gpus:
        told = f"{len(found.gpus)} GPUs" if found.gpus else f"{len(found.functions)} functions"
        lost = Unread(f"what comes after these {told}", f"the XML in {name} is {read.cut}", "mail it again, whole")
        yield replace(found, summary=f"{found.summary}, {read.cut.partition(':')[0]}", unread=(*found.unread, lost))
    else:
        raise UsageMistake(f"{name}: the XML in it is {read.cut}, and nothing of a machine stands before that")


def _read_section(source: str, text: str) -> Iterator[Harvest]:
    if not text.strip():
        return
    is_other = False
    for is_there, parse in _PARSERS:
        if is_there(text):
            is_other = True
            found = parse(text, source)
            if (
                found.functions
                or found.gpus
                or found.slots
                or found.system
                or found.matrix
                or found.firmware
                or found.claimed is not None
            ):
                yield found
    if any(mark in text for mark in _LOG_MARKS) and (_STAMPED.search(text) or _KERNEL.search(text)):
        lines = text.splitlines()
        if is_other:
            lines = [line for line in lines if _STAMPED.match(line) or _KERNEL.match(line)]
        yield parse_kernel_tree(lines, source)


_LSPCI = re.compile(r"\n[0-9a-f:]{5,14}\.[0-7](?: Bus)?(?=[ \n])")
_FIRMWARE_WORDS = ("uefi0134", "uefi0256", "memory mapped i/o than", "resource exhaustion", "option rom", "expansion rom not")


def _is_firmware_log(text: str) -> bool:
    lower = text.lower()
    return any(words in lower for words in _FIRMWARE_WORDS)


_PARSERS: tuple[tuple[Callable[[str], bool], Callable[[str, str], Harvest]], ...] = (
    (lambda text: _LSPCI.search(f"\n{text}") is not None, parse_lspci),
    (
        lambda text: ('"' in text and lspci_machine.LINE.search(text) is not None) or lspci_machine.BLOCK.search(text) is not None,
        lspci_machine.parse_lspci_machine,
    ),
    (lambda text: "-[" in text and lspci_tree.ROOT.search(text) is not None, parse_lspci_tree),
    (lambda text: "NVSMI LOG" in text, parse_smi_query),
    (
        lambda text: (
            ("N" in text or "U" in text) and any(words in text for words in _SMI_WORDS) and _SMI_TABLE.search(text) is not None
        ),
        parse_smi_table,
    ),
    (lambda text: "GPU0" in text and _TOPOLOGY.search(text) is not None, parse_smi_topology),
    (lambda text: "P: /devices/" in text, parse_udev),
    (lambda text: "DMI type " in text, parse_dmidecode),
    (_is_firmware_log, parse_firmware_log),
)
"""A look for a format that costs little on megabytes of something else, and its parser, which passes over what it does not know."""
