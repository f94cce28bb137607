"""Files as people mail them, made up line by line: no recording is in them."""

from types import SimpleNamespace

import pytest

from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.procedures.analysis.analysis import analyse
from harness.procedures.analysis.diagnosis import Severity


def analysed(*texts, platform=None):
    """The analysis of some files' texts."""
    harvests = [harvest for number, text in enumerate(texts) for harvest in read_dump(f"file{number}.txt", text.encode())]
    return analyse(merge(harvests), platform)


def faults(analysis):
    return [diagnosis.check for diagnosis in analysis.of(Severity.FAIL)]


def warnings(analysis):
    return [diagnosis.check for diagnosis in analysis.of(Severity.WARN)]


def told(analysis, check):
    """All words of the diagnoses of one check."""
    found = [each for each in analysis.diagnoses if each.check == check]
    return "\n".join(" ".join((each.where, each.what, each.quote, *each.then, each.cause, each.do)) for each in found)


RTX = ("Region 0: Memory at {low:08x} (32-bit, non-prefetchable) [size=16M]",
       "Region 1: Memory at {high:x} (64-bit, prefetchable) [size=256M]",
       "Region 3: Memory at {more:x} (64-bit, prefetchable) [size=32M]")  # fmt: skip


def gpu(
    bdf,
    *,
    regions=None,
    driver="nvidia",
    ids="10de:1e30",
    kind="3D controller [0302]",
    speed="8GT/s",
    width=16,
    payload=256,
    number=0,
    numa=None,
    group="",
):
    """One GPU of ``lspci -nnvvv``."""
    low, high = 0xB0000000 + (number << 24), 0x382000000000 + (number << 32)
    lines = RTX if regions is None else regions
    body = [line.format(low=low, high=high, more=high + (1 << 28)) for line in lines]
    return "\n".join([
        f"{bdf} {kind}: NVIDIA Corporation TU102GL [{ids}] (rev a1)",
        "\tSubsystem: NVIDIA Corporation Device [10de:129e]",
        "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx-",
        *([f"\tNUMA node: {numa}"] if numa is not None else []),
        *([f"\tIOMMU group: {group}"] if group else []),
        *(f"\t{line}" for line in body),
        "\tCapabilities: [78] Express (v2) Endpoint, MSI 00",
        "\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0",
        "\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-",
        "\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+",
        f"\t\t\tMaxPayload {payload} bytes, MaxReadReq 512 bytes",
        "\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM L0s L1",
        "\t\t\tClockPM+ Surprise- LLActRep- BwNot- ASPMOptComp+",
        f"\t\tLnkSta:\tSpeed {speed}, Width x{width}",
        "\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-",
        "\t\tLnkCtl2: Target Link Speed: 8GT/s, EnterCompliance- SpeedDis-",
        *([f"\tKernel driver in use: {driver}"] if driver else []),
        "", "",
    ])  # fmt: skip


def bridge(
    bdf,
    secondary,
    subordinate,
    *,
    kind="Downstream Port",
    ids="10b5:9797",
    window=None,
    speed="8GT/s",
    width=16,
    acs="",
    payload=256,
    slot="",
    numa=None,
):
    """One port of ``lspci -nnvvv``; ``acs`` is the text after ``ACSCtl:``, ``slot`` that after ``SltSta: Status:``."""
    span = f"\tPrefetchable memory behind bridge: {window[0]:016x}-{window[0] + window[1] - 1:016x}" if window else ""
    lines = [
        f"{bdf} PCI bridge [0604]: A maker of switches [{ids}] (rev 01) (prog-if 00 [Normal decode])",
        "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx-",
        f"\tBus: primary={bdf[-7:-5]}, secondary={secondary:02x}, subordinate={subordinate:02x}, sec-latency=0",
        *([f"\tNUMA node: {numa}"] if numa is not None else []),
        span,
        f"\tCapabilities: [68] Express (v2) {kind}{' (Slot+)' if slot else ''}, MSI 00",
        "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0",
        "\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-",
        f"\t\t\tMaxPayload {payload} bytes, MaxReadReq 128 bytes",
        "\t\tLnkCap:\tPort #1, Speed 8GT/s, Width x16, ASPM L1",
        "\t\t\tClockPM- Surprise+ LLActRep+ BwNot+ ASPMOptComp+",
        f"\t\tLnkSta:\tSpeed {speed}, Width x{width}",
        f"\t\t\tTrErr- Train- SlotClk+ DLActive{'+' if width else '-'} BWMgmt- ABWMgmt-",
        *(["\t\tSltCap:\tAttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug+ Surprise+", "\t\t\tSlot #4, PowerLimit 75.000W",
           f"\t\tSltSta:\tStatus: {slot}", "\t\t\tChanged: MRL- PresDet- LinkState-"] if slot else []),
        "\t\tLnkCtl2: Target Link Speed: 8GT/s, EnterCompliance- SpeedDis-",
        *(["\tCapabilities: [f24 v1] Access Control Services",
           "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl+ DirectTrans+",
           f"\t\tACSCtl:\t{acs}"] if acs else []),
        "\tKernel driver in use: pcieport", "", "",
    ]  # fmt: skip
    return "\n".join(line for line in lines if line or not lines) + "\n\n"


def machine(gpus=4, *, ports=None, **changed):
    """``lspci -nnvvv`` of a root port, a switch and some GPUs; ``changed`` gives one GPU (``gpu2=``) other keywords."""
    parts = [
        bridge("3a:00.0", 0x3B, 0x3C + gpus, kind="Root Port", ids="8086:2030", **changed.pop("root", {})),
        bridge("3b:00.0", 0x3C, 0x3C + gpus, kind="Upstream Port"),
    ]
    for number in range(gpus):
        parts.append(bridge(f"3c:{number:02x}.0", 0x3D + number, 0x3D + number, **(ports or {})))
        parts.append(gpu(f"{0x3D + number:02x}:00.0", number=number, **changed.get(f"gpu{number}", {})))
    return "".join(parts)


def topology(*rows, nodes=()):
    """``nvidia-smi topo -m``: the levels to the GPUs before each one, from GPU1 on; ``nodes`` are their NUMA affinities."""
    count = len(rows) + 1
    cells = [["X"] * count for _ in range(count)]
    for number, row in enumerate(rows, start=1):
        for other, cell in enumerate(row.split()):
            cells[number][other] = cells[other][number] = cell
    names = [f"GPU{number}" for number in range(count)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity"])]
    for number, name in enumerate(names):
        lines.append("\t".join([name, *(f" {cell} " for cell in cells[number]), "0-23", nodes[number] if nodes else "N/A"]))
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n"


def smi(*addresses):
    """``nvidia-smi -q -x`` of GPUs without a fault."""
    gpus = "".join(
        f'<gpu id="0000{address.upper()}"><product_name>Quadro RTX 8000</product_name><serial>SN{number}</serial>'
        f"<bar1_memory_usage><total>256 MiB</total></bar1_memory_usage></gpu>"
        for number, address in enumerate(addresses)
    )
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return f"{head}<nvidia_smi_log><attached_gpus>{len(addresses)}</attached_gpus>{gpus}</nvidia_smi_log>\n"


def dmesg(*lines, start=1.0):
    """A kernel log with stamps of a millisecond each."""
    return "".join(f"[{start + number / 1000:12.6f}] {line}\n" for number, line in enumerate(lines))


@pytest.fixture(scope="session")
def mailed():
    """What makes up files, and what reads an analysis."""
    makers = (analysed, faults, warnings, told, gpu, bridge, machine, topology, smi, dmesg)
    return SimpleNamespace(rtx=RTX, **{maker.__name__: maker for maker in makers})
