"""Each format by itself: the facts that it tells, and what it is said not to tell."""

import io
import tarfile

import pytest

from harness.devices.dumps.harvest import Format, full_address
from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump
from harness.devices.pcie import parse_kernel_log, strip_stamp
from harness.devices.pcie.kernel_events import Kind, parse_kernel_events, seconds_of
from harness.devices.pcie.xids import meaning_of


def read(*texts):
    return merge([harvest for number, text in enumerate(texts) for harvest in read_dump(f"file{number}", text.encode())])


@pytest.mark.parametrize(
    ("text", "address"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("3b:00.0", "0000:3b:00.0"), ("10000:01:00.0", "10000:01:00.0"),
     ("0000:3b:00", "0000:3b:00.0"),
     ("", ""), ("nothing", ""), ("0000:zz:00.0", "")],
)  # fmt: skip
def test_addresses_are_written_in_one_way(text, address):
    assert full_address(text) == address


MESSAGE = "pci 0000:3b:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]"
STAMPS = (
    "[    1.234567] ", "[Sun Feb 23 16:24:18 2025] ", "<6>[    1.234567] ", "kern  :warn  : [    1.234567] ", "6,3964,206764307,-;",
    "2025-01-21T04:41:44,285060+00:00 ", "Aug 17 00:00:24 vmname kernel: [    1.234567] ",
    "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ",
    "Sun 2025-02-23 16:24:18 UTC host kernel: ", "[    1.234567] host kernel: ", "[    1.234567] [  T123] ", "",
)  # fmt: skip


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_line_is_the_same_with_every_kind_of_stamp(stamp):
    assert strip_stamp(stamp + MESSAGE) == MESSAGE
    (shortage,) = parse_kernel_log([stamp + MESSAGE]).shortages
    assert shortage.line == MESSAGE
    assert [short.line for short in read(f"{stamp}{MESSAGE}\n").snapshot.log.shortages] == [MESSAGE]


def test_stamps_tell_seconds_where_they_can():
    assert seconds_of("[   61.500000] x") == 61.5
    assert seconds_of("6,3964,206764307,-;x") == 206.764307
    assert seconds_of("[Sun Feb 23 16:25:18 2025] x") - seconds_of("[Sun Feb 23 16:24:18 2025] x") == 60
    assert seconds_of("2025-01-21T04:42:44,285060+00:00 x") - seconds_of("2025-01-21T04:41:44,285060+00:00 x") == 60
    assert seconds_of("[Sun Feb 31 16:25:18 2025] x") is None
    assert seconds_of("x") is None


def test_a_corrected_error_is_one_event_in_both_wordings():
    for word in ("Corrected", "Correctable"):
        line = f"pcieport 0000:00:01.0: PCIe Bus Error: severity={word}, type=Physical Layer, (Receiver ID)"
        (event,) = parse_kernel_events([line])
        assert (event.kind, event.bdf) == (Kind.BUS_ERROR, "0000:00:01.0")


def test_a_numbered_line_that_follows_no_error_is_no_bit_of_one():
    assert parse_kernel_events(["pci 0000:00:01.0:  [ 4] something else"]) == ()


def test_a_known_xid_has_a_meaning_and_an_unknown_one_says_so():
    assert meaning_of(79).is_hardware
    assert not meaning_of(31).is_hardware
    assert meaning_of(9999).means == "not in this table"


def test_a_kernel_log_gives_the_tree_and_the_last_word_on_a_bar():
    picture = read(
        "[1.0] Linux version 6.1\n"
        "[1.0] pci_bus 0000:3a: root bus resource [bus 3a-5c]\n"
        "[1.0] pci 0000:3a:00.0: [8086:2030] type 01 class 0x060400 PCIe Root Port\n"
        "[1.0] pci 0000:3a:00.0: PCI bridge to [bus 3b-3c]\n"
        "[1.0] pci 0000:3b:00.0: [10de:1e30] type 00 class 0x030000 PCIe Endpoint\n"
        "[1.0] pci 0000:3b:00.0: BAR 0 [mem 0xb0000000-0xb0ffffff]\n"
        "[1.0] pci 0000:3b:00.0: BAR 1 [mem 0x00000000-0x0fffffff 64bit pref]\n"
        "[1.1] pci 0000:3b:00.0: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space\n"
        "[1.2] pci 0000:3b:00.0: BAR 1 [mem 0x382000000000-0x38200fffffff 64bit pref]: assigned\n"
    )
    (gpu,) = picture.on_bus
    assert gpu.path == "pci0000:3a/00.0/00.0"
    assert (gpu.bar(0).size, gpu.bar(1).size) == (16 << 20, 256 << 20)
    assert gpu.bar(1).assigned
    assert picture.snapshot.log.shortages == ()


def test_a_plain_table_tells_of_errors_and_of_gpus_that_do_not_answer():
    table = (
        "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n"
        "|   0  Quadro RTX 8000                Off |   00000000:3B:00.0 Off |  0 |\n"
        "| 33%   30C    P8              12W /  260W |       1MiB /  46080MiB |  0%  Default |\n"
        "+-----\n"
        "|   1  Quadro RTX 8000                Off |   00000000:3C:00.0 Off |  ERR! |\n"
        "|ERR!  ERR! ERR!               ERR! / ERR! |  GPU is lost |  N/A |\n"
        "+-----\n"
        "Unable to determine the device handle for GPU 0000:5E:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    )
    lost = {gpu.address: gpu.lost for gpu in read(table).gpus}
    assert lost == {"0000:3b:00.0": "", "0000:3c:00.0": "ERR!", "0000:5e:00.0": "GPU is lost"}


def test_a_driver_without_any_gpu_is_told_apart_from_no_output():
    assert read("No devices were found\n").claimed == 0


def test_a_topology_is_read_with_escapes_and_nics_and_twenty_gpus():
    names = [f"GPU{number}" for number in range(20)]
    rows = [f"{name}\t" + "\t".join(" X " if name == other else "PIX" for other in names) + "\tNODE\t0-23\t0" for name in names]
    text = (
        "\t\x1b[4m"
        + "\t".join([*names, "mlx5_0", "CPU Affinity", "NUMA Affinity"])
        + "\x1b[0m\n"
        + "\n".join(rows)
        + "\nmlx5_0\tNODE\n\nLegend:\n  X = Self\n"
    )
    (matrix,) = read(text).matrices
    assert matrix.gpus == tuple(names)
    assert len(matrix.cells) == 400
    assert matrix.cells["GPU3", "GPU17"] == "PIX"


def test_a_user_s_lspci_is_said_to_leave_out_capabilities():
    text = (
        "3b:00.0 3D controller [0302]: NVIDIA [10de:1e78] (rev a1)\n"
        "\tRegion 0: Memory at b0000000 (32-bit, non-prefetchable) [size=16M]\n\tCapabilities: <access denied>\n"
    )
    (unread,) = [unread for unread in read(text).snapshot.unread if unread.what == "capabilities"]
    assert unread.of == ("0000:3b:00.0",)
    assert "as root" in unread.do


def test_a_function_that_reads_all_ones_is_gone_in_text_and_in_bytes():
    text = "3b:00.0 3D controller [0302]: NVIDIA [10de:1e78] (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n"
    raw = "3b:00.0 Bus\n" + "".join(f"{at:02x}: {'ff ' * 16}\n" for at in range(0, 64, 16))
    assert [read(each).snapshot.functions[0].is_gone for each in (text, raw)] == [True, True]


def test_several_formats_join_into_one_function_and_the_sizes_stay():
    bytes_only = "3b:00.0 Bus\n" + "".join(
        f"{at:02x}: {row}\n"
        for at, row in (
            (0, "de 10 78 1e 06 00 10 00 a1 00 02 03 00 00 00 00"),
            (16, "00 " * 16),
            (32, "00 " * 16),
            (48, "00 " * 16),
        )
    )
    text = (
        "3b:00.0 3D controller [0302]: NVIDIA [10de:1e78]\n\tRegion 1: Memory at 382000000000 (64-bit, prefetchable) [size=256M]\n"
    )
    udev = (
        "P: /devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0\nE: PCI_CLASS=30200\nE: PCI_ID=10DE:1E78\n"
        "E: PCI_SUBSYS_ID=10DE:13D8\nE: PCI_SLOT_NAME=0000:3b:00.0\nE: DRIVER=nvidia\n\n"
        "P: /devices/pci0000:3a/0000:3a:00.0\nE: PCI_CLASS=60400\nE: PCI_ID=8086:2030\nE: PCI_SLOT_NAME=0000:3a:00.0\n"
    )
    picture = read(bytes_only, text, udev)
    (gpu,) = picture.on_bus
    assert (gpu.path, gpu.driver, gpu.subsystem, gpu.bar(1).size) == ("pci0000:3a/00.0/00.0", "nvidia", "10de:13d8", 256 << 20)
    assert [harvest.format for harvest in picture.harvests] == [Format.LSPCI_HEX, Format.LSPCI, Format.UDEV]


def test_a_tar_of_sysfs_gives_tree_bars_links_and_driver():
    packed = io.BytesIO()
    folder = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    files = {
        f"{folder}/class": "0x030200", f"{folder}/vendor": "0x10de", f"{folder}/device": "0x1e78", f"{folder}/numa_node": "-1",
        f"{folder}/current_link_speed": "2.5 GT/s PCIe", f"{folder}/current_link_width": "16", f"{folder}/max_link_width": "16",
        f"{folder}/resource": "0x00000000b0000000 0x00000000b0ffffff 0x0000000000040200\n"
                              "0x0000382000000000 0x000038200fffffff 0x000000000014220c\n",
        "sys/devices/pci0000:3a/0000:3a:00.0/class": "0x060400",
    }  # fmt: skip
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
        link = tarfile.TarInfo(f"{folder}/driver")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../../bus/pci/drivers/nvidia"
        tar.addfile(link)
    (gpu,) = merge(read_dump("tar", packed.getvalue())).on_bus
    assert gpu.path == "pci0000:3a/00.0/00.0"
    assert (gpu.driver, gpu.numa_node, gpu.link.current_width, gpu.link.generation) == ("nvidia", -1, 16, 1)
    assert (gpu.bar(0).size, gpu.bar(1).size) == (16 << 20, 256 << 20)
