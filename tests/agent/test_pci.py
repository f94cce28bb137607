import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.agent import pci

DEVICES = Path("/sys/bus/pci/devices")


def objects(root, kind=None):
    return [line for line in pci.read(str(root), uid=0) if kind in (None, line["kind"])]


def test_a_function_is_named_by_its_walk_from_the_host_bridge(sys_tree):
    sys_tree.function("pci0000:3a", "0000:3a:00.0")
    sys_tree.function("pci0000:3a", "0000:3a:00.0", "0000:3b:00.0", "0000:3c:04.0", "0000:41:00.0")
    first, second = objects(sys_tree.root, "function")
    assert (first["bdf"], first["path"], first["parent"]) == ("0000:3a:00.0", "pci0000:3a/00.0", None)
    assert second["path"] == "pci0000:3a/00.0/00.0/04.0/00.0"
    assert second["parent"] == "0000:3c:04.0"


def test_a_domain_behind_another_function_is_named_by_its_own_bridge(sys_tree):
    """Intel VMD: NVMe drives in a domain of their own, deeper down in sysfs."""
    sys_tree.function("pci0000:5d", "0000:5d:05.5", "pci10000:00", "10000:00:02.0", "10000:01:00.0")
    (function,) = objects(sys_tree.root, "function")
    assert (function["path"], function["parent"]) == ("pci10000:00/02.0/00.0", "10000:00:02.0")


def test_ids_link_and_place_are_plain_values(sys_tree):
    sys_tree.function(
        "pci0000:3a", "0000:3b:00.0",
        current_link_speed="2.5 GT/s PCIe\n", current_link_width="16\n", max_link_speed="8 GT/s\n", max_link_width="16\n",
        numa_node="-1\n", sriov_totalvfs="16\n", sriov_numvfs="0\n",
    )  # fmt: skip
    (line,) = objects(sys_tree.root, "function")
    assert [line[key] for key in ("vendor", "device", "subsystem_vendor", "subsystem_device", "class", "revision")] == [
        "10de", "1e78", "10de", "13d8", "030200", "a1",
    ]  # fmt: skip
    assert line["link"] == {"current_speed": 2.5, "current_width": 16, "max_speed": 8.0, "max_width": 16}
    assert (line["numa_node"], line["local_cpulist"], line["enable"], line["power_state"]) == (-1, "0-23", 1, "D0")
    assert (line["sriov_total"], line["sriov_enabled"]) == (16, 0)


@pytest.mark.parametrize(("speed", "width"), [("Unknown\n", "255\n"), ("Unknown speed\n", "255\n"), (None, None)])
def test_an_unknown_link_is_null(sys_tree, speed, width):
    sys_tree.function("pci0000:3a", "0000:3b:00.0", current_link_speed=speed, max_link_speed=speed, max_link_width=width)
    (line,) = objects(sys_tree.root, "function")
    assert set(line["link"].values()) == {None}


def test_resources_are_start_end_and_flags(sys_tree):
    text = "0x00000000ab000000 0x00000000abffffff 0x0000000000040200\n0x0000382000000000 0x000038200fffffff 0x000000000014220c\n"
    sys_tree.function("pci0000:3a", "0000:3b:00.0", resource=text)
    (line,) = objects(sys_tree.root, "function")
    assert line["resource"] == [[0xAB000000, 0xABFFFFFF, 0x40200], [0x382000000000, 0x38200FFFFFFF, 0x14220C]]


def test_driver_group_physical_function_and_buses_follow_the_links(sys_tree):
    place = "sys/devices/pci0000:3a/0000:3b:00.0"
    sys_tree.function("pci0000:3a", "0000:3b:00.0", secondary_bus_number="60\n", subordinate_bus_number="65\n")
    sys_tree.link(f"{place}/driver", "../../../bus/pci/drivers/nvidia")
    sys_tree.link(f"{place}/iommu_group", "../../../kernel/iommu_groups/12")
    sys_tree.link(f"{place}/physfn", "../0000:3b:00.1")
    sys_tree.write("sys/kernel/iommu_groups/12/type", "DMA-FQ\n")
    (line,) = objects(sys_tree.root, "function")
    assert line["driver"] == "nvidia"
    assert line["iommu_group"] == {"id": "12", "type": "DMA-FQ"}
    assert line["physical"] == "0000:3b:00.1"
    assert (line["secondary_bus"], line["subordinate_bus"]) == (60, 65)


def test_only_error_counters_that_count_are_printed(sys_tree):
    sys_tree.function(
        "pci0000:3a", "0000:3b:00.0",
        aer_dev_correctable="RxErr 0\nBad TLP 3\nTOTAL_ERR_COR 3\n", aer_dev_fatal="Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n",
    )  # fmt: skip
    sys_tree.function("pci0000:3a", "0000:3c:00.0")
    with_aer, without = objects(sys_tree.root, "function")
    assert with_aer["aer"] == {"correctable": {"Bad TLP": 3}, "fatal": {}}
    assert without["aer"] is None


def test_configuration_space_is_hex_without_trailing_zeros(sys_tree):
    sys_tree.function("pci0000:3a", "0000:3b:00.0", config=b"\xde\x10\x78\x1e" + bytes(4092))
    (line,) = objects(sys_tree.root, "function")
    assert (line["config"], line["config_length"]) == ("de10781e", 4096)


def test_what_a_user_cannot_read_is_one_line_for_all_functions(sys_tree):
    for number in range(3):
        sys_tree.function("pci0000:3a", f"0000:3b:0{number}.0", config=b"\x01" * 64)
    sys_tree.write("proc/iomem", "00000000-00000000 : PCI Bus 0000:3a\n  00000000-00000000 : 0000:3b:00.0\n")
    unread = objects(sys_tree.root, "unread")
    assert [line["what"] for line in unread] == [
        "configuration space beyond the header",
        "the host bridges' windows in /proc/iomem",
    ]
    assert unread[0]["of"] == ["0000:3b:00.0", "0000:3b:01.0", "0000:3b:02.0"]
    assert all(line["do"].startswith("run as root") for line in unread)


def test_a_file_without_permission_is_noted(sys_tree, monkeypatch):
    sys_tree.function("pci0000:3a", "0000:3b:00.0")
    really_open = open

    def refuse(path, *arguments, **options):
        if str(path).endswith("/config"):
            raise PermissionError(13, "Permission denied")
        return really_open(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", refuse)
    function, unread = objects(sys_tree.root)[1:]
    assert (function["vendor"], function["config"]) == ("10de", None)
    assert (unread["what"], unread["of"], unread["why"]) == ("config", ["0000:3b:00.0"], "Permission denied")
    assert unread["do"].startswith("run as root")


def test_one_broken_function_does_not_hide_the_others(sys_tree):
    sys_tree.function("pci0000:3a", "0000:3a:00.0")
    sys_tree.function("pci0000:3a", "0000:3b:00.0", resource="not a number\n")
    sys_tree.function("pci0000:3a", "0000:3c:00.0", vendor=None)
    sys_tree.function("pci0000:3a", "0000:3d:00.0", config=None)
    broken = sys_tree.function("pci0000:3a", "0000:3e:00.0", local_cpulist=None)
    (broken / "local_cpulist").mkdir()
    sys_tree.link("sys/bus/pci/devices/0000:3f:00.0", "../../../devices/pci0000:3a/0000:3f:00.0")
    lines = objects(sys_tree.root)
    assert [line["bdf"] for line in lines if line["kind"] == "function"] == ["0000:3a:00.0", "0000:3d:00.0", "0000:3e:00.0"]
    unread = {tuple(line["of"]): line for line in lines if line["kind"] == "unread"}
    assert unread["0000:3b:00.0",]["why"].startswith("ValueError")
    assert "went away" in unread["0000:3c:00.0", "0000:3f:00.0"]["why"]
    assert unread["0000:3e:00.0",]["what"] == "local_cpulist"


def test_slots_and_host_are_read_without_any_identity(sys_tree):
    sys_tree.write("sys/bus/pci/slots/2/address", "0000:d8:00\n")
    sys_tree.write("sys/bus/pci/slots/1/address", "0000:3b:00\n")
    sys_tree.write("sys/class/dmi/id/product_name", "PowerEdge R640\n")
    sys_tree.write("sys/class/iommu/dmar0/uevent", "")
    sys_tree.write("proc/sys/kernel/hostname", "secret-name\n")
    lines = objects(sys_tree.root)
    host = lines[0]
    assert (host["kind"], host["kernel"], host["uid"], host["machine"], host["iommus"]) == (
        "host", "6.1.0-test", 0, "PowerEdge R640", ["dmar0"],
    )  # fmt: skip
    assert host["command_line"] == "quiet iommu=pt"
    assert [(line["name"], line["address"]) for line in lines if line["kind"] == "slot"] == [
        ("1", "0000:3b:00"),
        ("2", "0000:d8:00"),
    ]
    assert "secret-name" not in json.dumps(lines)


def test_windows_of_host_bridges_are_told_from_those_of_bridges_and_of_ecam(sys_tree):
    sys_tree.function("pci0000:3a", "0000:3a:00.0", "0000:3b:00.0")
    (sys_tree.root / "sys/devices/pci0000:5d").mkdir()
    sys_tree.write(
        "proc/iomem",
        "80000000-8fffffff : PCI MMCONFIG 0000 [bus 00-ff]\n"
        "  80000000-8fffffff : PCI Bus 0000:3a\n"
        "ab000000-b87fffff : PCI Bus 0000:3a\n"
        "  ab000000-abffffff : PCI Bus 0000:3b\n"
        "b8800000-c5ffffff : Reserved\n"
        "  b8800000-c5ffffff : PCI Bus 0000:5d\n"
        "382000000000-382fffffffff : PCI Bus 0000:3a\n",
    )
    sys_tree.write("proc/ioports", "6000-7fff : PCI Bus 0000:3a\n")
    assert [(line["root"], line["space"], line["start"], line["end"]) for line in objects(sys_tree.root, "window")] == [
        ("pci0000:3a", "memory", 0xAB000000, 0xB87FFFFF),
        ("pci0000:5d", "memory", 0xB8800000, 0xC5FFFFFF),
        ("pci0000:3a", "memory", 0x382000000000, 0x382FFFFFFFFF),
        ("pci0000:3a", "io", 0x6000, 0x7FFF),
    ]


def test_a_machine_without_pci_says_so(tmp_path):
    lines = objects(tmp_path)
    assert [line["kind"] for line in lines] == ["host", "unread"]
    assert (lines[1]["what"], lines[1]["why"]) == ("/sys/bus/pci/devices", "there is no such folder")


def test_the_same_tree_gives_the_same_lines(sys_tree):
    for number in range(9):
        sys_tree.function("pci0000:3a", f"0000:3b:0{number}.0")
    assert json.dumps(objects(sys_tree.root)) == json.dumps(objects(sys_tree.root))
    addresses = [line["bdf"] for line in objects(sys_tree.root, "function")]
    assert addresses == sorted(addresses)


def test_twenty_gpus_and_thirty_bridges_are_read_within_a_moment(sys_tree):
    for number in range(50):
        sys_tree.function("pci0000:3a", f"0000:{0x3B + number:02x}:00.0", config=os.urandom(4096), max_link_width="16\n")
    took = []
    for _ in range(3):
        started = time.perf_counter()
        assert len(objects(sys_tree.root, "function")) == 50
        took.append(time.perf_counter() - started)
    assert min(took) < 0.3, f"{min(took):.2f} s at best"


@pytest.mark.skipif(not DEVICES.is_dir() or not list(DEVICES.iterdir()), reason="this machine has no PCI: run where there is some")
def test_the_machine_this_test_runs_on_is_read_as_its_files_say():
    functions = {line["bdf"]: line for line in pci.read() if line["kind"] == "function"}
    assert sorted(functions) == sorted(entry.name for entry in DEVICES.iterdir())
    for bdf, line in functions.items():
        place = DEVICES / bdf
        assert f"0x{line['vendor']}" == (place / "vendor").read_text().strip()
        assert f"0x{line['class']}" == (place / "class").read_text().strip()
        assert line["path"].rsplit("/", 1)[1] == bdf.rsplit(":", 1)[1]
        assert bytes.fromhex(line["config"])[:2] == int(line["vendor"], 16).to_bytes(2, "little")
        driver = place / "driver"
        assert line["driver"] == (driver.resolve().name if driver.exists() else "")


def run(*arguments, python=sys.executable, **options):
    return subprocess.run([python, "-m", "harness.agent", *arguments], capture_output=True, text=True, check=False, **options)


def test_the_command_prints_json_lines_and_counts_them(sys_tree):
    sys_tree.function("pci0000:3a", "0000:3b:00.0")
    done = run("pci", "--root", str(sys_tree.root))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["kind"] for line in lines] == ["host", "function", "end"]
    assert lines[-1] == {"kind": "end", "lines": 2}


@pytest.mark.parametrize("arguments", [["gpio"], []])
def test_an_unknown_worker_is_refused_in_one_line(arguments):
    done = run(*arguments)
    error, end = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 2
    assert error["kind"] == "error"
    assert "pci" in error["do"]
    assert end == {"kind": "end", "lines": 1}
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_argument_is_refused():
    done = run("pci", "--rot", "/")
    assert done.returncode == 2
    assert "--rot" in done.stderr
