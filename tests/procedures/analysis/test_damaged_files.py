"""Files that were cut off or corrupted on their way: one clear line, or what can still be told; never anything else."""

import bz2
import contextlib
import gzip
import io
import lzma
import random
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.devices.dumps import recognise
from harness.devices.dumps.harvest import Format
from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.errors import BringupError, UsageMistake
from harness.procedures.analysis.analysis import analyse

HWLOC = """<topology version="3.0"><object type="Machine"><info name="DMIProductName" value="X"/>
<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[2b-3b]">
<object type="Bridge" bridge_type="1-1" bridge_pci="0000:[2c-3b]"
 pci_busid="0000:2b:00.0" pci_type="0604 [8086:2030] [8086:0000] 04 00">
<object type="PCIDev" pci_busid="0000:2c:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1 00"/></object></object></object>
</topology>"""
NCCL = """<system version="1"><cpu numaid="0"><pci busid="0000:08:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
<pci busid="0000:0d:00.0" class="0x030200" vendor="0x10de" device="0x2330"
 link_speed="16 GT/s" link_width="16"/>
</pci></cpu></system>"""
UDEV = """P: /devices/pci0000:3a/0000:3a:00.0
E: PCI_CLASS=60400
E: PCI_ID=8086:2030
E: PCI_SLOT_NAME=0000:3a:00.0

P: /devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
E: PCI_CLASS=30200
E: PCI_ID=10DE:1E30
E: PCI_SUBSYS_ID=10DE:129E
E: PCI_SLOT_NAME=0000:3b:00.0
E: DRIVER=nvidia
"""
DMI = """# dmidecode 3.3
Handle 0x0900, DMI type 9, 17 bytes
System Slot Information
\tDesignation: PCIe Slot 1
\tCurrent Usage: In Use
\tBus Address: 0000:3b:00.0
"""
QUERY = """==============NVSMI LOG==============

Attached GPUs                             : 2
GPU 00000000:3B:00.0
    Product Name                          : Quadro RTX 8000
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 3
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 16x
    BAR1 Memory Usage
        Total                             : 256 MiB
GPU 00000000:3C:00.0
    Product Name                          : Quadro RTX 8000
    Retired Pages
        Pending Page Blacklist            : Yes
"""
SMI = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2     |
|   0  Quadro RTX 8000     On   | 00000000:3B:00.0 Off |                    0 |
| 33%   36C    P8    13W / 260W |      0MiB / 45556MiB |      0%      Default |
+-----------------------------------------------------------------------------+
Unable to determine the device handle for GPU 0000:3C:00.0: Unknown Error
GPU 2: Quadro RTX 8000 (UUID: GPU-0e6a4b7c-0000-4000-8000-000000000002)
"""
PEERS = " \tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tCNS\tX\n\nLegend:\n"
FIRMWARE = (
    "2026-01-01 10:00:00 UEFI0134 Unable to allocate Memory Mapped Input Output (MMIO) resources\n"
    "1a | 09/21/2012 | 10:15:02 | System Firmware Progress #0x1c | PCI resource exhaustion : Bus 147 | Asserted\n"
)
MACHINE_READABLE = (
    '3b:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "Device [1e78]" -ra1 "NVIDIA Corporation [10de]" "Device [13d8]"\n'
    "\nSlot:\t0000:3c:00.0\nClass:\t3D controller [0302]\nVendor:\tNVIDIA Corporation [10de]\nDevice:\tDevice [1e78]\n"
    "NUMANode:\t1\n"
)
TREE = (
    "-[0000:3a]---00.0-[3b-40]----00.0-[3c-40]--+-00.0-[3d]----00.0  NVIDIA [10de:1e30]\n"
    + " " * 43
    + "\\-01.0-[3e]----00.0  NVIDIA [10de:1e30]\n"
)


def tar_of_sysfs():
    """A tar of two functions."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder, files in {
            "sys/devices/pci0000:3a/0000:3a:00.0": {
                "class": "0x060400", "vendor": "0x8086", "device": "0x2030", "secondary_bus_number": "59",
            },
            "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0": {
                "class": "0x030200", "vendor": "0x10de", "device": "0x1e30",
                "current_link_speed": "8.0 GT/s PCIe", "current_link_width": "16",
                "resource": "0x00000000b0000000 0x00000000b0ffffff 0x0000000000040200\n"
                            "0x0000382000000000 0x000038200fffffff 0x000000000014220c\n",
                "config": "\x00" * 300,
            },
        }.items():  # fmt: skip
            for name, content in files.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                data = content.encode()
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture(scope="module")
def whole(mailed):
    """One file of each format, whole."""
    log = mailed.dmesg(
        "Linux version 6.1", "pci 0000:3a:00.0: [8086:2030] type 01 class 0x060400",
        "pci 0000:3b:00.0: [10de:1e30] type 00 class 0x030000",
        "pci 0000:3b:00.0: reg 0x14: [mem 0x00000000-0x0fffffff 64bit pref]", "pci 0000:3a:00.0: PCI bridge to [bus 3b]",
        "pci 0000:3b:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]",
        "pcieport 0000:3a:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)",
        "pcieport 0000:3a:00.0:    [ 4] DLP                    (First)",
        "pcieport 0000:3a:00.0: pciehp: Slot(0): Link Down", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
    )  # fmt: skip
    topology = mailed.topology("PIX", "SYS PIX", nodes=("0", "0", "1"))
    rows = "3b:00.0 3D controller [0302]: NVIDIA Corporation [10de:1e30] (rev a1)\n" + "".join(
        f"{at:02x}: {'10 ' * 16}\n" for at in range(0, 4096, 16)
    )
    report = f"\n{'_' * 44}\n\n".join([mailed.machine(1), log, HWLOC, SMI, topology])
    texts = [mailed.machine(2), log, mailed.smi("0000:3d:00.0"), HWLOC, NCCL, UDEV, DMI, QUERY, TREE, topology, rows]
    texts += [SMI, PEERS, FIRMWARE, MACHINE_READABLE, report]
    return [text.encode() for text in texts] + [tar_of_sysfs()]


def outcome(data):
    """What became of a file: True where something was read of it."""
    complaint = None
    try:
        analyse(merge(read_dump("mailed", data)))
    except BringupError as error:
        complaint = str(error)
    assert complaint is None or "\n" not in complaint
    return complaint is None


def test_each_whole_file_is_read(whole):
    assert [outcome(data) for data in whole] == [True] * len(whole)


def test_every_format_is_among_the_files_that_are_damaged_here(whole):
    seen = {harvest.format for data in whole for harvest in read_dump("mailed", data)}
    assert set(Format) - seen == set()


@pytest.mark.parametrize("times", [1, 40])
def test_a_file_that_says_the_same_many_times_over_tells_it_once(whole, times):
    for data in whole[:-1]:
        read = analyse(merge(read_dump("mailed", data * times)))
        assert len(read.picture.snapshot.functions) == len(merge(read_dump("mailed", data)).snapshot.functions)


@pytest.mark.parametrize("opening", ["<topology >", "<system >", "<topology version ", "<nvidia_smi_log>", "<system version='1'"])
def test_openings_of_xml_without_an_end_take_no_longer_than_other_text(monkeypatch, opening):
    """Counted, not timed: each search for a closing tag goes over the whole text, so there may only be a few of them."""
    looked = []
    found = recognise.read_xml
    monkeypatch.setattr(recognise, "read_xml", lambda name, text: looked.append(len(text)) or found(name, text))
    with contextlib.suppress(UsageMistake):
        read_dump("mailed", (opening * 20000 + "</x>").encode())
    assert sum(looked) <= 20000 * len(opening) + 4


def test_a_table_of_more_gpus_than_any_machine_has_is_not_compared_by_threes(mailed):
    many = mailed.topology(*(" ".join(["SYS"] * number) for number in range(1, 200)))
    assert mailed.faults(mailed.analysed(many)) == []


def test_packed_files_tell_the_same_as_unpacked_ones(whole):
    for data in whole:
        plain = merge(read_dump("mailed", data))
        for pack in (gzip.compress, bz2.compress, lzma.compress, lambda data: gzip.compress(bz2.compress(data))):
            assert merge(read_dump("mailed", pack(data))) == plain


def test_a_file_cut_off_anywhere_gives_one_line_or_what_is_left(whole):
    dice = random.Random(8)
    read = 0
    for data in whole:
        for packed in (data, gzip.compress(data)):
            for end in [1, len(packed) - 1, *(dice.randrange(len(packed)) for _ in range(12))]:
                read += outcome(packed[:end])
    assert read > 100, "most of a file that was cut off still tells something"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_a_packed_file_that_was_cut_off_says_so(mailed, pack):
    dice = random.Random(3)
    noise = "".join(f"[{number:12.6f}] a line {dice.random()}\n" for number in range(80000)).encode()
    packed = pack(noise)
    whole, cut = (analyse(merge(read_dump("mailed.gz", data))) for data in (packed, packed[: len(packed) * 3 // 4]))
    assert "the end of the file" not in [unread.what for unread in whole.unread]
    assert "the end of the file" in [unread.what for unread in cut.unread]
    assert 0 < len(cut.picture.snapshot.log.lines) < 80000


def test_a_file_with_wrong_bytes_gives_one_line_or_what_is_left(whole):
    dice = random.Random(9)
    for data in whole:
        for _ in range(25):
            broken = bytearray(data)
            for _ in range(dice.randint(1, 40)):
                broken[dice.randrange(len(broken))] = dice.randrange(256)
            outcome(bytes(broken))


def test_lines_in_any_order_and_mixture_give_one_line_or_what_is_left(whole):
    dice = random.Random(10)
    lines = [line for data in whole[:-1] for line in data.splitlines()]
    for _ in range(30):
        outcome(b"\n".join(dice.sample(lines, 60)))


@given(
    st.binary(max_size=400),
    st.sampled_from(
        [b"", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"3b:00.0 ", b"[    1.0] pci 0000:3b:00.0: ", b"<topology version"]
    ),
)
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_the_reader_raise_anything_else(data, start):
    outcome(start + data)


def test_xml_with_entities_of_its_own_is_refused():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><topology version="2.0"><info name="&b;"/></topology>'
    with pytest.raises(UsageMistake, match="damaged"):
        read_dump("mailed", bomb.encode())


def test_nvidia_smi_xml_that_was_cut_off_tells_its_first_gpus_and_where_it_ends(mailed):
    addresses = [f"0000:{0x3D + number:02x}:00.0" for number in range(8)]
    text = mailed.smi(*addresses)
    cut = text[: text.index("SN5") + 2]
    analysis = mailed.analysed(cut, mailed.machine(8))
    assert [gpu.serial for gpu in analysis.picture.gpus] == ["SN0", "SN1", "SN2", "SN3", "SN4", ""], "half a value is none"
    (lost,) = [unread for unread in analysis.unread if unread.what == "what comes after these 6 GPUs"]
    assert "cut off inside nvidia_smi_log > gpu 00000000:42:00.0 > serial" in lost.why
    assert mailed.faults(analysis) == [], "GPUs behind the cut are not called missing"
    assert mailed.warnings(analysis) == ["view"]


def test_hwloc_that_was_cut_off_or_damaged_tells_the_tree_before_that(mailed):
    whole = mailed.analysed(HWLOC).picture.snapshot.functions
    cut = mailed.analysed(HWLOC[: HWLOC.index("</object>")])
    assert cut.picture.snapshot.functions == whole
    assert "cut off inside topology > object > object" in cut.unread[0].why
    damaged = mailed.analysed(HWLOC.replace("</object></object></object>", "<<<</object>"))
    assert damaged.picture.snapshot.functions == whole
    assert "damaged: " in damaged.unread[0].why


def test_what_follows_a_cut_document_behind_a_rule_is_still_read(mailed):
    analysis = mailed.analysed(f"{HWLOC[:-60]}\n{'_' * 40}\n{mailed.machine(2)}")
    assert {harvest.format.value for harvest in analysis.picture.harvests} == {"hwloc topology", "lspci"}


@pytest.mark.parametrize("text", ["<nvidia_smi_log><gpu", "<topology version", "<topology version='2.0'><object type='Machine'>"])
def test_xml_that_ends_before_the_machine_begins_is_one_line(text):
    with pytest.raises(UsageMistake, match="cut off"):
        read_dump("mailed", text.encode())


@pytest.mark.parametrize(
    ("tag", "inner"), [("nvidia_smi_log", "a"), ("topology version='2.0'", "object"), ("system version='1'", "pci")]
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_bottomless_nesting_is_refused_in_one_line(tag, inner, is_whole):
    text = f"<{tag}>{f'<{inner}>' * 20000}"
    if is_whole:
        text += f"{f'</{inner}>' * 20000}</{tag.split()[0]}>"
    with pytest.raises(UsageMistake, match="nested more than 100 levels"):
        read_dump("mailed", text.encode())


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("harness.devices.dumps.recognise.LARGEST", 1 << 20)
    with pytest.raises(UsageMistake, match="unpacks to more than 1 MiB"):
        read_dump("mailed", gzip.compress(b"0" * (1 << 22)))


def test_bridges_that_name_each_other_make_no_endless_walk(mailed):
    loop = mailed.bridge("3a:00.0", 0x3B, 0x3B) + mailed.bridge("3b:00.0", 0x3A, 0x3A) + mailed.gpu("3b:01.0")
    with contextlib.suppress(UsageMistake):
        assert len(merge(read_dump("mailed", loop.encode())).snapshot.functions) == 3
        outcome(loop.encode())
