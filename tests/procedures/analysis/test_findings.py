"""What else an analysis must find, and what it must leave alone."""

import pytest

MIB = "Region 0: Memory at {low:08x} (32-bit, non-prefetchable) [size=16M]"


@pytest.mark.parametrize(
    "how",
    ["<unassigned> (64-bit, prefetchable)", "<ignored> (64-bit, prefetchable)", "382000000000 (64-bit, prefetchable) [virtual]"],
)
def test_every_way_of_lspci_to_say_that_a_region_has_no_place_is_found(mailed, how):
    analysis = mailed.analysed(mailed.machine(2, gpu1={"regions": (MIB, f"Region 1: Memory at {how} [size=256M]")}))
    assert mailed.faults(analysis) == ["aperture"]
    assert analysis.counts == (("enumerated", 2), ("BARs assigned", 1), ("driver bound", 2))


def test_a_later_assigned_cancels_an_earlier_no_space(mailed):
    log = mailed.dmesg(
        "pci 0000:3d:00.0: [10de:1e30] type 00 class 0x030200",
        "pci 0000:3d:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]",
        "pci 0000:3d:00.0: BAR 1: failed to assign [mem size 0x10000000 64bit pref]",
        "pci 0000:3d:00.0: BAR 1: assigned [mem 0x382000000000-0x38200fffffff 64bit pref]",
    )
    assert mailed.faults(mailed.analysed(log)) == []
    unfinished = "\n".join(log.splitlines()[:-1])
    assert mailed.faults(mailed.analysed(unfinished)) == ["aperture"]


def test_the_final_state_decides_over_a_line_of_the_boot(mailed):
    log = mailed.dmesg("pci 0000:3d:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]")
    analysis = mailed.analysed(mailed.machine(1), log)
    assert mailed.faults(analysis) == []
    assert "1 about resources that have their place in the end" in mailed.told(analysis, "shortage")


def test_a_window_that_costs_a_gpu_its_aperture_is_its_quote(mailed):
    log = mailed.dmesg("pci 0000:3c:00.0: BAR 15: no space for [mem size 0x12000000 64bit pref]")
    lost = {"regions": (MIB, "Region 1: Memory at <unassigned> (64-bit, prefetchable)")}
    analysis = mailed.analysed(mailed.machine(2, gpu0=lost), log)
    assert mailed.faults(analysis) == ["aperture"]
    (diagnosis,) = [each for each in analysis.diagnoses if each.check == "aperture"]
    assert diagnosis.quote == "pci 0000:3c:00.0: BAR 15: no space for [mem size 0x12000000 64bit pref]"
    assert diagnosis.source == "file1.txt"
    assert diagnosis.parts == ("0000:3d:00.0",)


def test_a_card_that_is_narrower_than_both_ends_can_do_fails_and_a_narrow_slot_does_not(mailed):
    narrow = mailed.analysed(mailed.machine(2, ports={"width": 8}, gpu0={"width": 8}, gpu1={"width": 8}))
    assert mailed.faults(narrow) == ["width", "width"]
    slot = mailed.machine(1, ports={"width": 8}, gpu0={"width": 8}).replace(
        "\tLnkCap:\tPort #1, Speed 8GT/s, Width x16", "\tLnkCap:\tPort #1, Speed 8GT/s, Width x8"
    )
    assert mailed.faults(mailed.analysed(slot)) == []


def test_an_uplink_that_runs_slow_fails_because_it_does_not_idle_down(mailed):
    analysis = mailed.analysed(mailed.machine(2, root={"speed": "2.5GT/s (downgraded)"}))
    assert mailed.faults(analysis) == ["uplink-speed"]


def test_the_tightest_hop_is_named_once_for_all_gpus_behind_it(mailed):
    analysis = mailed.analysed(mailed.machine(3, root={"width": 8}))
    words = mailed.told(analysis, "tightest")
    assert "0000:3a:00.0 = 0000:3b:00.0" in words
    assert "x8 generation 3 is the tightest hop on the way to 3 GPUs" in words
    assert mailed.told(mailed.analysed(mailed.machine(3)), "tightest") == ""


def resizable(text, size, sizes):
    """The same GPUs, with a resizable BAR 1 of a size and a choice of sizes."""
    capability = (
        "\tCapabilities: [bb0 v1] Physical Resizable BAR\n"
        f"\t\tBAR 1: current size: {size}, supported: {sizes}\n"
        "\tKernel driver in use: nvidia"
    )
    return text.replace("\tKernel driver in use: nvidia", capability)


def test_a_resizable_bar_that_register_and_system_do_not_agree_on_fails(mailed):
    analysis = mailed.analysed(resizable(mailed.machine(1), "1GB", "64MB 128MB 256MB 512MB 1GB"))
    assert mailed.faults(analysis) == ["rebar"]
    assert "BAR 1 has 1 GiB by the device's register, 256 MiB by the system" in mailed.told(analysis, "rebar")


def test_an_aperture_that_could_be_larger_is_a_choice_and_no_fault(mailed):
    analysis = mailed.analysed(resizable(mailed.machine(2), "256MB", "64MB 256MB 32GB"))
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], [])
    assert "2 GPUs the aperture could be as large as 32 GiB" in mailed.told(analysis, "rebar")
    assert mailed.told(mailed.analysed(resizable(mailed.machine(1), "256MB", "64MB 256MB")), "rebar") == ""


def test_a_card_that_is_plugged_in_without_a_link_is_found_at_its_port(mailed):
    dead = mailed.bridge("3c:1f.0", 0x60, 0x60, width=0, slot="AttnBtn- PowerFlt- MRL- CmdCplt- PresDet+ Interlock-")
    empty = mailed.bridge("3c:1e.0", 0x61, 0x61, width=0, slot="AttnBtn- PowerFlt- MRL- CmdCplt- PresDet- Interlock-")
    analysis = mailed.analysed(mailed.machine(2) + dead + empty)
    assert mailed.faults(analysis) == ["link"]
    assert "0000:3c:1f.0" in mailed.told(analysis, "link")


def test_a_gpu_without_a_driver_among_bound_ones_is_lost_at_the_driver(mailed):
    analysis = mailed.analysed(mailed.machine(3, gpu1={"driver": ""}))
    assert mailed.faults(analysis) == ["bound"]
    held = mailed.analysed(mailed.machine(3, gpu1={"driver": "vfio-pci"}))
    assert (mailed.faults(held), mailed.warnings(held)) == ([], ["owner"])


def test_files_of_two_machines_are_told_apart_and_accuse_nobody(mailed):
    analysis = mailed.analysed(mailed.machine(2), mailed.smi("0000:aa:00.0", "0000:ab:00.0"))
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], ["view"])
    assert "different machines" in mailed.told(analysis, "view")


def test_xids_of_programs_warn_and_xids_of_parts_fail(mailed):
    log = mailed.dmesg(*(f"NVRM: Xid (PCI:0000:3d:00): {number}, pid=1, words" for number in (13, 31, 43, 48, 63, 94)))
    analysis = mailed.analysed(log)
    assert set(mailed.warnings(analysis)) == {"xid-13", "xid-31", "xid-43", "xid-63"}
    (failed,) = [each for each in analysis.diagnoses if each.severity == "FAIL"]
    assert failed.check == "xid-48"
    assert "Xid (PCI:0000:3d:00): 94" in "".join(failed.then)


def test_corrected_errors_are_judged_by_their_rate(mailed):
    def log(step):
        lines = []
        for number in range(20):
            at = 100 + number * step
            lines.append(
                f"[{at:12.6f}] pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"
            )
            lines.append(f"[{at:12.6f}] pcieport 0000:3a:00.0:    [12] Timeout")
        return "\n".join(lines) + "\n"

    often, seldom = mailed.analysed(log(1.0)), mailed.analysed(log(60.0))
    assert (mailed.faults(often), mailed.warnings(often)) == ([], ["aer"])
    assert "60 a minute" in mailed.told(often, "aer")
    assert (mailed.faults(seldom), mailed.warnings(seldom)) == ([], [])
    assert "1 a minute" in mailed.told(seldom, "aer")


def test_a_port_that_lost_its_card_and_has_it_again_only_warns(mailed):
    lost = "pcieport 0000:3c:00.0: pciehp: Slot(4): Link Down"
    back = mailed.analysed(mailed.dmesg(lost, "pcieport 0000:3c:00.0: pciehp: Slot(4): Link Up"))
    assert (mailed.faults(back), mailed.warnings(back)) == ([], ["hotplug"])
    assert mailed.faults(mailed.analysed(mailed.dmesg(lost))) == ["hotplug"]
    ignored = "pcieport 0000:3c:00.0: pciehp: Slot(4): Link Down/Up ignored (recovered by DPC)"
    assert mailed.faults(mailed.analysed(mailed.dmesg(ignored))) == []


def test_containment_is_told_from_the_log_and_from_the_register(mailed):
    line = "pcieport 0000:3c:00.0: DPC: containment event, status:0x1f01 source:0x0000"
    assert mailed.faults(mailed.analysed(mailed.dmesg(line))) == ["dpc"]


def test_a_full_width_bottleneck_is_a_gpu_at_rest(mailed):
    line = (
        "pci 0000:3d:00.0: 32.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x16 link at 0000:3c:00.0 "
        "(capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)"
    )
    analysis = mailed.analysed(mailed.dmesg(line))
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], [])


def test_the_display_of_a_management_board_is_no_gpu(mailed):
    board = (
        "03:00.0 VGA compatible controller [0300]: Matrox Electronics Systems Ltd. G200eW3 [102b:0536] (rev 04)\n"
        "\tRegion 0: Memory at <unassigned> (32-bit, prefetchable)\n\n"
    )
    analysis = mailed.analysed(board + mailed.machine(1))
    assert analysis.counts[0] == ("enumerated", 1)
    assert not analysis.failed


def test_a_root_window_that_could_hold_them_all_is_not_accused(mailed):
    lost = {"regions": (MIB, "Region 1: Memory at <unassigned> (64-bit, prefetchable)")}
    line = "pci 0000:3d:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]"

    def window(last):
        return mailed.dmesg(
            "pci_bus 0000:3a: root bus resource [bus 3a-5c]",
            f"pci_bus 0000:3a: root bus resource [mem 0x382000000000-{last} window]",
            line,
        )

    roomy = mailed.told(mailed.analysed(mailed.machine(3, gpu0=lost), window("0x382fffffffff")), "aperture")
    full = mailed.told(mailed.analysed(mailed.machine(3, gpu0=lost), window("0x38205fffffff")), "aperture")
    assert "64 GiB, could hold the 1536 MiB of these GPUs" in roomy
    assert "1536 MiB, is used up" in full


def test_slots_that_a_platform_expects_and_that_are_lost_together_are_told_together(mailed):
    from harness import locator

    platform, _ = locator.find_platform("lqd8360")
    analysis = mailed.analysed(mailed.machine(2), platform=platform)
    assert analysis.counts[:2] == (("expected", 20), ("enumerated", 2))
    lost = [each for each in analysis.diagnoses if "expected by the platform" in each.what]
    assert 0 < len(lost) < 20
    named = ", ".join(each.where for each in lost)
    assert all(slot.name in named for slot in platform.slots)
