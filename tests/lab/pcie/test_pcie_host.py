import json

import pytest

from harness.errors import UsageMistake
from harness.lab.model import pcie_host
from harness.lab.model.driver import kernel_lines
from harness.lab.model.parts import GPUS, boot_id


def test_the_answer_takes_its_time_and_counts_its_lines(view):
    lines = list(pcie_host.answer(view(), ()))
    offsets = [offset for offset, _ in lines]
    assert offsets == sorted(offsets)
    assert offsets[-1] == pcie_host.DURATION
    assert json.loads(lines[-1][1]) == {"kind": "end", "lines": len(lines) - 1}


def test_the_answer_is_the_same_every_time(view):
    assert list(pcie_host.answer(view(), ())) == list(pcie_host.answer(view(), ()))


def test_each_boot_has_its_own_boot_id(view):
    first, second = (json.loads(next(iter(pcie_host.answer(view(boot=boot), ())))[1]) for boot in (1, 2))
    assert (first["boot_id"], second["boot_id"]) == (boot_id(1), boot_id(2))
    assert boot_id(1) != boot_id(2)


def test_arguments_are_refused_with_one_line(view):
    with pytest.raises(UsageMistake, match="takes no arguments, not --root /"):
        pcie_host.answer(view(), ("--root", "/"))


def test_a_healthy_kernel_log_tells_of_no_trouble(snapshot):
    log = snapshot().log
    assert (log.shortages, log.buses, log.invalid_bars, log.xids) == ((), (), (), ())
    assert log.reaches_boot


def test_the_kernel_log_announces_the_windows_that_sysfs_shows(snapshot):
    seen = snapshot("pcie.bars")
    told = {(root.root, root.start, root.end) for root in seen.log.roots if root.kind == "mem"}
    assert told == {(window.root, window.start, window.end) for window in seen.windows if not window.is_io}


@pytest.mark.parametrize("fault", ["pcie.bars", "pcie.aperture.window"])
def test_every_bar_without_a_place_has_a_line_and_no_other_has(snapshot, fault):
    seen = snapshot(fault)
    told = {(short.bdf, short.name) for short in seen.log.shortages if short.name.startswith("BAR")}
    lacking = {
        (function.bdf, f"BAR {index}")
        for function in seen.gpus
        if function.vendor == "10de"
        for index in (0, 1, 3)
        if function.bar(index) is None
    }
    assert told == lacking
    assert lacking


def test_the_silent_aperture_has_no_line_of_the_kernel(snapshot):
    assert snapshot("pcie.aperture").log.shortages == ()


def test_the_driver_refuses_a_gpu_without_all_its_bars(snapshot):
    seen = snapshot("pcie.bars")
    refused = {invalid.bdf for invalid in seen.log.invalid_bars}
    assert refused == {function.bdf for function in seen.gpus if function.vendor == "10de" and not function.driver}
    assert len(refused) == 2


def test_lines_come_in_the_order_of_their_stamps(view):
    stamps = [float(line[1:13]) for line in pcie_host.kernel_log(view("pcie.kernel-log", "benign.no-space-io"))]
    assert stamps == sorted(stamps)


def test_the_driver_speaks_in_the_same_log(view):
    lines = pcie_host.kernel_log(view())
    wanted = [text for _, text in kernel_lines(view(), pcie_host.gpu_addresses(view()))]
    assert wanted
    assert all(any(line.endswith(text) for line in lines) for text in wanted)


def test_addresses_are_those_of_the_gpus_a_driver_can_use(view):
    assert list(pcie_host.gpu_addresses(view())) == [gpu.slot for gpu in GPUS]
    assert pcie_host.gpu_addresses(view())["jbogB/slot01"] == "0000:dc:00.0"
    assert pcie_host.gpu_addresses(view("benign.bdfs-moved"))["jbogB/slot01"] == "0000:df:00.0"
    assert len(pcie_host.gpu_addresses(view("pcie.bars"))) == 18
    assert pcie_host.gpu_addresses(view(MmioAbove4Gb="Disabled")) == {}


def test_a_bios_slot_switched_off_takes_its_chassis(view):
    assert {slot[:5] for slot in pcie_host.gpu_addresses(view(Slot1="Disabled"))} == {"jbogB"}


def test_the_command_line_agrees_with_the_domains(snapshot):
    for faults in ((), ("pcie.iommu",), ("benign.iommu-identity",)):
        seen = snapshot(*faults)
        assert seen.host.command_line == pcie_host.command_line(frozenset(faults))
    assert "iommu=off" in snapshot().host.command_line
    assert "iommu=pt" in snapshot("benign.iommu-identity").host.command_line
