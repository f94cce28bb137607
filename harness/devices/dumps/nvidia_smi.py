"""What ``nvidia-smi`` prints: ``-q`` as text and as XML, the plain table, and what it says where it cannot answer.

Text and XML tell the same under other names; both become one flat table of ``section/.../key`` in lower case, from which one
reader takes the facts. A value such as ``N/A`` or ``[Not Supported]`` is not told; ``GPU is lost`` and the like is kept as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias
from xml.etree.ElementTree import Element

from harness.devices.dumps.harvest import DriverGpu, Format, Harvest, Matrix, full_address

Table: TypeAlias = Mapping[str, str]
_LOST = re.compile(r"GPU is lost|GPU requires reset|Unknown Error|ERR!", re.IGNORECASE)
_UNTOLD = re.compile(
    r"N/A|\[?Not Supported\]?|\[?Unknown\]?|Requested functionality has been deprecated|Insufficient Permissions|", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ROW = re.compile(
    r"^\| +(?P<index>\d+) +(?P<name>\S.*?) +(?:On|Off|N/A|ERR!|Enabled|Disabled)? *\| "
    r"*(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])",
    re.MULTILINE,
)
_CANNOT = re.compile(
    r"Unable to determine the device handle for (?:GPU ?|gpu "
    r")?(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]): (?P<why>[^\n.]+)"
)
_LISTED = re.compile(
    r"^GPU \d+: (?P<name>[^\n(]+) \(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)(?P<after>(?:\n(?!GPU \d)[^\n]*){0,40})", re.MULTILINE
)
_NONE = re.compile(r"No devices were found|NVIDIA-SMI has failed[^\n]*")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_THROTTLES = {
    "hw slowdown": "hardware slowdown", "hw thermal slowdown": "heat (hardware)", "hw power brake slowdown": "power brake",
    "sw thermal slowdown": "heat (software)",
}  # fmt: skip
_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_smi_xml(root: Element, source: str) -> Harvest:
    """Read ``nvidia-smi -q -x``. Never raises on what a GPU says; the document is parsed by the caller."""
    gpus = tuple(_gpu(element.get("id", ""), dict(_flat_xml(element, "")), source) for element in root.iter("gpu"))
    return _harvest(Format.SMI_XML, source, gpus, root.findtext("attached_gpus", ""), root.findtext("driver_version", ""))


def parse_smi_query(text: str, source: str) -> Harvest:
    """Read ``nvidia-smi -q``: one block a GPU, sections by indentation."""
    _, _, body = text.partition("NVSMI LOG")
    blocks = re.split(r"^GPU (?=[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:)", body, flags=re.MULTILINE)
    gpus = tuple(_gpu(block.split(None, 1)[0], dict(_flat_text(block)), source) for block in blocks[1:] if block.strip())
    attached = re.search(r"^Attached GPUs +: (\d+)", text, re.MULTILINE)
    driver = re.search(r"^Driver Version +: (\S+)", text, re.MULTILINE)
    return _harvest(Format.SMI_QUERY, source, gpus, attached[1] if attached else "", driver[1] if driver else "")


def parse_smi_table(text: str, source: str) -> Harvest:
    """Read the plain table, and the lines that stand in its place where a GPU, or the driver, does not answer."""
    found = {}
    rows = list(_ROW.finditer(text))
    for row, following in zip(rows, [*rows[1:], None], strict=False):
        piece = text[row.start() : following.start() if following else len(text)].split("+----", 1)[0]
        lost = "ERR!" if "ERR!" in piece or "Unknown Error" in piece else ""
        found[full_address(row["address"])] = DriverGpu(full_address(row["address"]), row["name"], lost=lost, source=source)
    for line in _CANNOT.finditer(text):
        address = full_address(line["address"])
        found[address] = DriverGpu(address, lost=line["why"].strip(), source=source)
    for listed in _LISTED.finditer(text):
        fabric = "all NVLink links are inactive" if "all links are inactive" in listed["after"] else ""
        found[listed["uuid"]] = DriverGpu("", listed["name"].strip(), uuid=listed["uuid"], fabric=fabric, source=source)
    driver = re.search(r"Driver Version: (\S+)", text)
    none = _NONE.search(text)
    claimed = "0" if none and not found else ""
    return _harvest(Format.SMI_TABLE, source, tuple(found.values()), claimed, driver[1] if driver else "")


def parse_smi_topology(text: str, source: str) -> Harvest:
    """Read a table of ``nvidia-smi topo``: ``-m``, or one of ``-p2p``. Columns of NICs and processors are left out."""
    gpus: list[str] = []
    cells: dict[tuple[str, str], str] = {}
    nodes: dict[str, str] = {}
    column_of_node = None
    for line in _ANSI.sub("", text).splitlines():
        words = line.split()
        if not gpus:
            if (
                len(words) >= 1
                and words[0] == "GPU0"
                and (len(words) == 1 or words[1] in ("GPU1", "CPU") or words[1].startswith(("NIC", "mlx")))
            ):
                gpus = [word for word in words if re.fullmatch(r"GPU\d+", word)]
                columns = [column.strip() for column in line.split("\t")]
                column_of_node = columns.index("NUMA Affinity") if "NUMA Affinity" in columns else None
            continue
        if not words and cells:
            break
        if words and words[0] in gpus:
            for column, cell in zip(gpus, words[1:], strict=False):
                cells[words[0], column] = cell
            row = line.split("\t")
            if column_of_node is not None and column_of_node < len(row):
                nodes[words[0]] = row[column_of_node].strip()
    is_peer = any(cell in ("OK", "CNS", "GNS", "TNS", "NS", "DR") for cell in cells.values())
    what = "peer access" if is_peer else "topology"
    return Harvest(Format.SMI_TOPOLOGY, source, f"{what} of {len(gpus)} GPUs", matrix=Matrix(what, tuple(gpus), cells, nodes))


def _harvest(form: Format, source: str, gpus: tuple[DriverGpu, ...], attached: str, driver: str) -> Harvest:
    claimed = int(attached) if attached.isdigit() else None
    summary = f"{len(gpus)} GPUs" + (f", driver {driver}" if driver else "")
    return Harvest(form, source, summary, gpus=gpus, claimed=claimed, system={"driver": driver} if driver else {})


def _flat_xml(element: Element, above: str) -> Iterator[tuple[str, str]]:
    for child in element:
        key = f"{above}{child.tag.lower()}"
        text = (child.text or "").strip()
        if text:
            yield key, text
        yield from _flat_xml(child, f"{key}/")


def _flat_text(block: str) -> Iterator[tuple[str, str]]:
    open_sections: list[tuple[int, str]] = []
    for line in block.splitlines()[1:]:
        bare = line.strip()
        if not bare:
            continue
        depth = len(line) - len(line.lstrip())
        while open_sections and open_sections[-1][0] >= depth:
            open_sections.pop()
        key, colon, value = bare.partition(" : ")
        above = "".join(f"{name}/" for _, name in open_sections)
        if colon:
            yield f"{above}{key.strip().lower()}", value.strip()
            open_sections.append((depth, key.strip().lower()))
        elif len(open_sections) < 16:
            open_sections.append((depth, bare.lower()))


def _gpu(address: str, table: Table, source: str) -> DriverGpu:
    lost = next((value for value in table.values() if _LOST.fullmatch(value.strip("[]"))), "")
    recovery = _told(table, "gpu_recovery_action", "gpu recovery action")
    return DriverGpu(
        address=full_address(address) or full_address(_told(table, "pci/pci_bus_id", "pci/bus id")) or address.lower(),
        name=_told(table, "product_name", "product name"),
        serial=_told(table, "serial", "serial number"),
        uuid=_told(table, "uuid", "gpu uuid"),
        device=_id(_told(table, "pci/pci_device_id", "pci/device id")),
        subsystem=_id(_told(table, "pci/pci_sub_system_id", "pci/sub system id")),
        vbios=_told(table, "vbios_version", "vbios version"),
        aperture=_size(_told(table, "bar1_memory_usage/total", "bar1 memory usage/total")),
        memory=_size(_told(table, "fb_memory_usage/total", "fb memory usage/total")),
        generation=_count(_told(table, f"{_XML_GEN}/current_link_gen", f"{_TEXT_GEN}/current")),
        generation_most=_count(_told(table, f"{_XML_GEN}/max_link_gen", f"{_TEXT_GEN}/max")),
        width=_count(_told(table, f"{_XML_WIDTH}/current_link_width", f"{_TEXT_WIDTH}/current")),
        width_most=_count(_told(table, f"{_XML_WIDTH}/max_link_width", f"{_TEXT_WIDTH}/max")),
        replays=_count(_told(table, "pci/replay_counter", "pci/replays since reset")),
        uncorrected=_uncorrected(table, "volatile"),
        uncorrected_ever=_uncorrected(table, "aggregate"),
        retired_single=_count(_told(table, "retired_pages/multiple_single_bit_retirement/retired_count",
                                   "retired pages/single bit ecc")),
        retired_double=_count(_told(table, "retired_pages/double_bit_retirement/retired_count", "retired pages/double bit ecc")),
        retirement_pending=_yes(_told(table, "retired_pages/pending_retirement", "retired_pages/pending_blacklist",
                                      "retired pages/pending page blacklist", "retired pages/pending page retirement")),
        remap_pending=_yes(_told(table, "remapped_rows/remapped_row_pending", "remapped rows/pending")),
        remap_failed=_yes(_told(table, "remapped_rows/remapped_row_failure", "remapped rows/remapping failure occurred")),
        fabric=_fabric(table),
        recovery="" if recovery.lower() == "none" else recovery,
        performance=_told(table, "performance_state", "performance state"),
        throttles=tuple(_throttles(table)),
        lost=lost.strip("[]"),
        source=source,
    )  # fmt: skip


_XML_GEN = "pci/pci_gpu_link_info/pcie_gen"
_XML_WIDTH = "pci/pci_gpu_link_info/link_widths"
_TEXT_GEN = "pci/gpu link info/pcie generation"
_TEXT_WIDTH = "pci/gpu link info/link width"


def _told(table: Table, *keys: str) -> str:
    """The first of the keys that has a value which tells something."""
    return next(
        (value for key in keys if (value := table.get(key, "")) and not _UNTOLD.fullmatch(value) and not _LOST.search(value)), ""
    )


def _uncorrected(table: Table, since: str) -> int | None:
    """Uncorrectable errors of all memories; a total where the driver gives one, else the sum of its parts."""
    kept = {
        key.rsplit("/", 1)[1]: value
        for key, value in table.items()
        if re.match(rf"(?:ecc_errors|ecc errors)/{since}/", key) and re.search(r"uncorrectable|double[_ ]bit", key)
    }
    whole = [
        _count(value) for key, value in table.items() if re.match(rf"(?:ecc_errors|ecc errors)/{since}/double[_ ]bit/total", key)
    ]
    if whole and whole[0] is not None:
        return whole[0]
    counts = [count for key, value in kept.items() if "threshold" not in key and (count := _count(value)) is not None]
    return sum(counts) if counts else None


def _fabric(table: Table) -> str:
    """What is unhealthy of the GPU's NVLink fabric, in the driver's words; "" where nothing is, or nothing is told."""
    summary = _told(table, "fabric/health/summary", "fabric/health/summary".replace("_", " "))
    if summary.lower() in ("", "healthy"):
        return ""
    bad = [
        key.rsplit("/", 1)[1].replace("_", " ")
        for key, value in table.items()
        if key.startswith("fabric/health/") and value == "True"
    ]
    return f"{summary} ({', '.join(bad)})" if bad else summary


def _throttles(table: Table) -> Iterator[str]:
    for key, value in table.items():
        if value.lower() != "active" or not re.match(r"clocks[_ ](?:event|throttle)[_ ]reasons/", key):
            continue
        name = re.sub(r"clocks?_(?:event|throttle)_reason_", "", key.rsplit("/", 1)[1]).replace("_", " ")
        if name in _THROTTLES:
            yield _THROTTLES[name]


def _id(text: str) -> str:
    """``1EB810DE`` (device, then vendor) as ``10de:1eb8``."""
    bare = text.lower().removeprefix("0x")
    return f"{bare[4:]}:{bare[:4]}" if re.fullmatch(r"[0-9a-f]{8}", bare) else ""


def _size(text: str) -> int | None:
    number, _, unit = text.partition(" ")
    return int(number) * _SIZES[unit] if number.isdigit() and unit in _SIZES else None


def _count(text: str) -> int | None:
    found = _NUMBER.match(text)
    return int(float(found[0])) if found else None


def _yes(text: str) -> bool | None:
    return {"yes": True, "no": False}.get(text.lower())
