"""Thirty public reports of machines that lost GPUs, or seemed to: the analysis names the cause, or passes what is harmless.

The inputs are written for the test in the shapes of the reports; each test names the report that it follows.
"""

GIB = 1 << 30
NO_BAR1 = (
    "Region 0: Memory at {low:08x} (32-bit, non-prefetchable) [size=16M]",
    "Region 3: Memory at {more:x} (64-bit, prefetchable) [size=32M]",
)


def test_case_1_a_window_too_small_for_two_gpus_of_several_is_told_at_bar_1(mailed):
    """NVIDIA/gpu-operator#492."""
    lspci = mailed.machine(8, gpu2={"driver": ""}, gpu5={"driver": ""})
    log = mailed.dmesg(
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:3f:00.0)",
        "nvidia: probe of 0000:3f:00.0 failed with error -1",
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:42:00.0)",
        "nvidia: probe of 0000:42:00.0 failed with error -1",
        "NVRM: The NVIDIA probe routine failed for 2 device(s).",
    )
    analysis = mailed.analysed(lspci, log)
    assert analysis.counts[0] == ("enumerated", 8)
    assert ("driver bound", 6) in analysis.counts
    lost = mailed.told(analysis, "driver-bar")
    assert "0000:3f:00.0" in lost
    assert "0000:42:00.0" in lost
    assert "BAR 1" in lost
    assert "64-bit memory-mapped I/O" in lost
    assert "probe of 0000:3f:00.0 failed" in lost, "what follows stands beneath its cause"


def test_case_2_a_window_upstream_that_cannot_hold_a_resized_bar_is_named_with_its_need(mailed):
    """NVIDIA/open-gpu-kernel-modules#510."""
    log = mailed.dmesg("pci 0000:09:00.0: BAR 15: no space for [mem size 0xc00000000 64bit pref]",
                       "pci 0000:09:00.0: BAR 15: failed to assign [mem size 0xc00000000 64bit pref]")  # fmt: skip
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["aperture"]
    assert "0000:09:00.0" in mailed.told(analysis, "aperture")
    assert "48 GiB" in mailed.told(analysis, "aperture")


def test_case_3_a_root_window_of_one_gib_cannot_be_widened_by_any_kernel_option(mailed):
    """A Dell workstation with 1 GiB of 64-bit space per stack (precision-5820-arc-b60-large-bar)."""
    log = mailed.dmesg(
        "pci_bus 0000:17: root bus resource [mem 0x380080000000-0x3800bfffffff window]",
        "pci_bus 0000:17: root bus resource [bus 17-39]",
        "pci 0000:1a:00.0: BAR 2 [mem size 0x800000000 64bit pref]: can't assign; no space",
        "pci 0000:1a:00.0: BAR 2 [mem size 0x800000000 64bit pref]: failed to assign",
    )
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["aperture"]
    words = mailed.told(analysis, "aperture")
    assert "1 GiB, is smaller than the 32 GiB needed" in words
    assert "no kernel option widens it" in words
    assert "granularity" in words


def test_case_4_a_bar_that_is_missing_without_a_word_is_found_with_the_window_and_the_need(mailed):
    """The window of a port summed without padding (cmpunlocker kernel-patch notes)."""
    large = ("Region 0: Memory at {low:08x} (32-bit, non-prefetchable) [size=16M]",
             "Region 1: Memory at {high:x} (64-bit, prefetchable) [size=64G]",
             "Region 3: Memory at {more:x} (64-bit, prefetchable) [size=32M]")  # fmt: skip
    lspci = mailed.machine(
        4, root={"window": (0x382000000000, 256 * GIB)}, gpu0={"regions": large}, gpu1={"regions": large}, gpu2={"regions": large},
        gpu3={"regions": NO_BAR1},
    )  # fmt: skip
    analysis = mailed.analysed(lspci)
    assert mailed.faults(analysis) == ["aperture"]
    words = mailed.told(analysis, "aperture")
    assert "0000:40:00.0" in words
    assert "there is no Region 1" in words
    assert "256 GiB" in words
    assert "need 512 GiB with alignment" in words
    assert "no line of the kernel log tells of it" in words


def test_case_5_bar_0_without_a_place_is_a_shortage_of_32_bit_space(mailed):
    """kata-containers/kata-containers#4358."""
    log = mailed.dmesg(
        "pci 0000:02:00.0: [10de:20f1] type 00 class 0x030200",
        "pci 0000:02:00.0: BAR 1: assigned [mem 0x800000000-0x8ffffffff 64bit pref]",
        "pci 0000:02:00.0: BAR 0: no space for [mem size 0x01000000]",
        "pci 0000:02:00.0: BAR 0: failed to assign [mem size 0x01000000]",
    )
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["bars"]
    assert "32-bit memory-mapped I/O is exhausted" in mailed.told(analysis, "bars")


def test_case_6_a_hot_added_card_that_fits_nowhere_is_told_with_reserve_and_need(mailed):
    """system76/firmware-open#66, Dunedan/mbp-2016-linux#60."""
    log = mailed.dmesg(
        "pcieport 0000:05:01.0: BAR 15: no space for [mem size 0x18000000 64bit pref]",
        "pcieport 0000:05:01.0: BAR 15: failed to assign [mem size 0x18000000 64bit pref]",
        "PCI: No. 2 try to assign unassigned res",
        "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:06:00.0)",
    )
    analysis = mailed.analysed(log)
    assert set(mailed.faults(analysis)) == {"aperture", "driver-bar"}
    assert "384 MiB" in mailed.told(analysis, "aperture")
    assert "hpmmioprefsize" in mailed.told(analysis, "aperture")


def test_case_7_bars_that_are_invalid_before_any_driver_are_the_firmware_s(mailed):
    """ROCm/amdgpu#62: an ASUS ESC8000 G4 with eight GPUs."""
    log = mailed.dmesg(
        "pci 0000:1d:00.0: BAR 0: initial BAR value 0x00000000 invalid",
        "pci 0000:20:00.0: BAR 2: initial BAR value 0x00000000 invalid",
    )
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["bars", "bars"]
    assert "before any driver" in mailed.told(analysis, "bars")
    assert "firmware" in mailed.told(analysis, "bars")


def test_case_8_many_vga_class_gpus_are_a_risk_in_post_and_3d_controllers_are_not(mailed):
    """ROCm/legacy-rocm-build#295: a ceiling of 13 GPUs."""
    vga = {f"gpu{number}": {"kind": "VGA compatible controller [0300]"} for number in range(13)}
    analysis = mailed.analysed(mailed.machine(13, **vga))
    assert mailed.warnings(analysis) == ["vga"]
    assert "13 GPUs" in mailed.told(analysis, "vga")
    assert "option ROM" in mailed.told(analysis, "vga")
    assert mailed.warnings(mailed.analysed(mailed.machine(13))) == []


def test_case_9_a_clash_of_a_vf_bar_warns_and_the_bar_of_the_function_itself_fails(mailed):
    """ROCm/legacy-rocm-build#6281."""
    log = mailed.dmesg(
        "pnp 00:05: disabling [mem 0xfd000000-0xfdffffff] because it overlaps 0000:c5:00.0 BAR 7 [mem "
        "0x00000000-0xfffffffff 64bit pref]",
        "pci 0000:c5:00.0: BAR 7: no space for [mem size 0x1000000000 64bit pref]",
        "pci 0000:c5:00.0: BAR 0: no space for [mem size 0x1000000000 64bit pref]",
        "amdgpu: probe of 0000:c5:00.0 failed with error -12",
    )
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["aperture"]
    assert mailed.warnings(analysis) == ["vf-bars", "vf-bars"]
    assert "failed with error -12" in mailed.told(analysis, "aperture")


def test_case_10_regions_that_differ_from_boot_to_boot_are_told_by_gpu(mailed):
    """tinygrad/open-gpu-kernel-modules#43: good and bad boots of one host."""
    good, bad = mailed.machine(3), mailed.machine(3, gpu1={"regions": NO_BAR1})
    differs = "Region 1: 256 MiB elsewhere, none here"
    lost_now, lost_before = mailed.analysed(good, bad), mailed.analysed(bad, good)
    assert mailed.faults(lost_before) == ["boots"]
    assert differs in mailed.told(lost_before, "boots")
    assert mailed.faults(lost_now) == ["aperture"]
    assert differs in mailed.told(lost_now, "aperture"), "told beneath the loss that it explains"
    assert mailed.faults(mailed.analysed(good, good)) == []


def test_case_11_a_post_message_about_memory_mapped_io_is_the_first_evidence(mailed):
    """HPE POST message 276 (DL360 Gen9)."""
    analysis = mailed.analysed("276 - An option card is requesting more memory mapped I/O than is available\n")
    assert mailed.faults(analysis) == ["post"]
    assert "memory-mapped I/O is short" in mailed.told(analysis, "post")


def test_case_12_the_event_log_of_the_bmc_names_the_bus(mailed):
    """Sun and Oracle servers: "PCI resource exhaustion : Bus 147" in the SEL."""
    analysis = mailed.analysed(
        "1a | 09/21/2012 | 10:15:02 | System Firmware Progress #0x1c | PCI resource exhaustion : Bus 147 | Asserted\n"
    )
    assert mailed.faults(analysis) == ["post"]
    assert "Bus 147" in mailed.told(analysis, "post")


def test_case_13_a_switch_that_was_hot_added_without_bus_numbers_names_the_full_range(mailed):
    """A kernel bug report of 2022 about a Thunderbolt dock."""
    log = mailed.dmesg(
        "pci 0000:00:1c.0: [8086:a33c] type 01 class 0x060400",
        "pci 0000:00:1c.0: PCI bridge to [bus 3b]",
        "pcieport 0000:00:1c.0: pciehp: Slot(12): Card present",
        "pcieport 0000:00:1c.0: pciehp: Slot(12): Link Up",
        "pci 0000:3b:00.0: [8086:0b26] type 01 class 0x060400",
        "pcieport 0000:00:1c.0: No bus number available for hot-added bridge",
    )
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["buses"]
    assert "bus range 3b-3b" in mailed.told(analysis, "buses")
    assert "hpbussize" in mailed.told(analysis, "buses")


def test_case_14_a_chassis_that_was_powered_late_is_told_to_be_powered_first(mailed):
    """NI PXI chassis: the same line."""
    analysis = mailed.analysed(mailed.dmesg("pci 0000:05:00.0: No bus number available for hot-added bridge"))
    assert mailed.faults(analysis) == ["buses"]
    assert "power fabric and chassis before the host" in mailed.told(analysis, "buses")


def test_case_15_a_shared_reserve_and_the_bottleneck_after_it_are_both_told(mailed):
    """linux-usb, 2026-04-08: a dock for which 64 GiB were asked and 32 came to each port."""
    log = mailed.dmesg(
        "pcieport 0000:92:00.0: Assigned bridge window [mem 0x6000000000-0x67ffffffff 64bit pref] to [bus 93-bc] "
        "cannot fit 0x1000000000 "
        "required for 0000:93:00.0 bridging to [bus 98-a4]",
        "pci 0000:98:00.0: 8.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x4 link at 0000:66:03.0 "
        "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
    )  # fmt: skip
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["aperture"]
    assert "64 GiB" in mailed.told(analysis, "aperture")
    assert "hpmmioprefsize" in mailed.told(analysis, "aperture")
    assert mailed.warnings(analysis) == ["bottleneck"]
    assert "limited at 0000:66:03.0" in mailed.told(analysis, "bottleneck")


def test_case_16_acs_redirect_is_told_of_bridges_between_gpus_only(mailed):
    """NVIDIA/nccl#2079 (ACSCtl 0x001d), #304, #606, NVIDIA/caffe#10."""
    redirect = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
    elsewhere = mailed.bridge("00:1c.0", 0x70, 0x70, kind="Root Port", acs=redirect)
    analysis = mailed.analysed(mailed.machine(3, ports={"acs": redirect}) + elsewhere)
    assert mailed.faults(analysis) == ["acs"]
    words = mailed.told(analysis, "acs")
    assert "0000:3c:00.0 ACSCtl 0x001d" in words
    assert "0000:00:1c.0" not in words
    assert "setpci" in words


def test_case_17_no_ninth_peer_is_no_fault(mailed):
    """ggml-org/llama.cpp#21883, NVIDIA/nccl#241: ten GPUs."""
    analysis = mailed.analysed(
        mailed.machine(10), "[  100.000000] python3: cudaErrorTooManyPeers: peer mapping resources exhausted\n"
    )
    assert not analysis.failed
    assert "expected above eight peers" in mailed.told(analysis, "peer-limit")


def test_case_18_a_link_drop_is_told_in_its_order_up_to_xid_79(mailed):
    """pop-os/pop#3363."""
    log = mailed.dmesg(
        "pci 0000:00:01.0: [8086:1901] type 01 class 0x060400",
        "pci 0000:01:00.0: [10de:1e30] type 00 class 0x030000",
        "pci 0000:00:01.0: PCI bridge to [bus 01]",
        "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0",
        "nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
        "nvidia 0000:01:00.0:   device [10de:1e30] error status/mask=00001040/0000a000",
        "nvidia 0000:01:00.0:    [12] Timeout               (First)",
        "nvidia 0000:01:00.0:    [ 6] BadTLP",
        "pcieport 0000:00:01.0: pciehp: Slot(0): Link Down",
        "pcieport 0000:00:01.0: pciehp: Slot(0): Card not present",
        "NVRM: Xid (PCI:0000:01:00): 79, pid=7992, GPU has fallen off the bus.",
    )
    analysis = mailed.analysed(log)
    assert len(mailed.faults(analysis)) == 1
    (diagnosis,) = [each for each in analysis.diagnoses if each.check == "lost"]
    story = [diagnosis.quote, *diagnosis.then]
    order = [
        next(number for number, line in enumerate(story) if word in line)
        for word in ("Bus Error", "Link Down", "Card not present", "79")
    ]
    assert order == sorted(order)
    assert len(set(order)) == 4


def test_case_19_a_gpu_that_does_not_leave_d3cold_has_no_power_and_all_its_functions_go(mailed):
    """kata-containers/kata-containers#11708, NVIDIA/open-gpu-kernel-modules#1071, Bumblebee-Project/bbswitch#226."""
    lines = [
        f"vfio-pci 0000:01:00.{function}: Unable to change power state from D3cold to D0, device inaccessible"
        for function in range(4)
    ]
    older = "pci 0000:01:00.0: can't change power state from D3cold to D0 (config space inaccessible)"
    for log in (
        mailed.dmesg(*lines),
        mailed.dmesg(older),
        mailed.dmesg("nouveau 0000:01:00.0: Refused to change power state, currently in D3"),
    ):
        analysis = mailed.analysed(log)
        assert mailed.faults(analysis) == ["power"], "one device, told once"
        assert "power, not the bus numbers" in mailed.told(analysis, "power")
        assert "d3cold_allowed" in mailed.told(analysis, "power")
        assert "pcie_port_pm" in mailed.told(analysis, "power")


def test_case_20_a_surprise_link_down_by_power_management_is_told_with_its_switch(mailed):
    """local-inference-lab/rtx6kpro, common issues."""
    log = mailed.dmesg(
        "{1}[Hardware Error]:   device_id: 0000:40:01.1",
        "{1}[Hardware Error]:   aer_uncor_status: 0x00000020, aer_uncor_mask: 0x00000000",
    )
    analysis = mailed.analysed(log)
    assert mailed.faults(analysis) == ["aer"]
    words = mailed.told(analysis, "aer")
    assert "0000:40:01.1" in words
    assert "surprise down" in words
    assert "pcie_aspm=off pcie_port_pm=off" in words


def test_case_21_a_fatal_data_link_error_names_the_port(mailed):
    """NVIDIA/open-gpu-kernel-modules#937: DLP at the root port of a fleet of H20."""
    for word in ("Uncorrected", "Uncorrectable"):
        log = mailed.dmesg(
            f"pcieport 0000:17:01.0: PCIe Bus Error: severity={word} (Fatal), type=Data Link Layer, (Receiver ID)",
            "pcieport 0000:17:01.0:   device [8086:352a] error status/mask=00000010/00100000",
            "pcieport 0000:17:01.0:    [ 4] DLP                    (First)",
        )
        analysis = mailed.analysed(log)
        assert mailed.faults(analysis) == ["aer"]
        assert "0000:17:01.0" in mailed.told(analysis, "aer")
        assert "DLP" in mailed.told(analysis, "aer")


def test_case_22_one_gpu_of_four_that_is_bound_and_not_initialised(mailed):
    """microsoft/pai#4344, NVIDIA/gpu-operator#1146, NVIDIA/open-gpu-kernel-modules#789."""
    addresses = [f"{0x3D + number:02x}:00.0" for number in range(4)]
    log = mailed.dmesg("NVRM: GPU 0000:3f:00.0: RmInitAdapter failed! (0x24:0x72:1568)")
    analysis = mailed.analysed(
        mailed.machine(4), mailed.smi(*(f"0000:{address}" for address in addresses if address != "3f:00.0")), log
    )
    assert analysis.counts[-2:] == (("driver bound", 4), ("nvidia-smi", 3))
    assert mailed.faults(analysis) == ["init"]
    words = mailed.told(analysis, "init")
    assert "bound but not initialised" in words
    assert "(0x24:0x72:1568)" in words
    assert "it is on the bus and not in nvidia-smi" in words
    old = mailed.analysed(mailed.dmesg("NVRM: RmInitAdapter failed! (0x26:0xffff:1127)"))
    assert mailed.faults(old) == ["init"]


def test_case_23_a_link_that_flaps_is_told_with_least_and_most_of_the_samples(mailed):
    """local-inference-lab/rtx6kpro#88: a snapshot looks healthy, the window does not."""
    samples = [mailed.machine(2, ports={"width": width}, gpu0={"width": width}, gpu1={"width": width}) for width in (16, 8, 16)]
    analysis = mailed.analysed(*samples)
    assert "flapping" in mailed.faults(analysis)
    assert "x8 to x16" in mailed.told(analysis, "flapping")


def test_case_24_what_no_register_shows_is_said_to_be_not_told(mailed):
    """A collapse under contention on PEX890xx switches, with every register in order."""
    analysis = mailed.analysed(mailed.machine(4), mailed.smi("0000:3d:00.0", "0000:3e:00.0", "0000:3f:00.0", "0000:40:00.0"))
    assert not analysis.failed
    assert [unread.what for unread in analysis.unread if "every register in order" in unread.do] == ["bandwidth between GPUs"]


def test_case_25_a_gpu_at_rest_on_generation_1_is_no_fault(mailed):
    """Syllo/nvtop#6."""
    idle = {f"gpu{number}": {"speed": "2.5GT/s (downgraded)"} for number in range(4)}
    analysis = mailed.analysed(mailed.machine(4, ports={"speed": "2.5GT/s (downgraded)"}, **idle))
    assert mailed.faults(analysis) == []
    assert mailed.warnings(analysis) == []
    assert "as they do at rest" in mailed.told(analysis, "idle-speed")


def test_case_26_payload_sizes_that_differ_are_told_along_the_path(mailed):
    """Dell KB 000216458: the parent at 512 bytes, the GPU at 256."""
    analysis = mailed.analysed(mailed.machine(1, ports={"payload": 512}))
    assert mailed.faults(analysis) == ["payload"]
    assert "0000:3c:00.0 512 > 0000:3d:00.0 256" in mailed.told(analysis, "payload")


def test_case_27_a_bios_that_is_known_to_loop_is_refused_by_the_platform(mailed):
    """A public report of UEFI0256 with an R740 and BIOS 2.4.7."""
    from harness import locator

    platform, _ = locator.find_platform("lqd8360")
    dmi = "# dmidecode 3.3\nHandle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n\tVendor: Dell Inc.\n\tVersion: {}\n"
    assert "bios" in mailed.faults(mailed.analysed(dmi.format("2.4.7"), platform=platform))
    assert "bios" not in mailed.faults(mailed.analysed(dmi.format("2.17.1"), platform=platform))
    loop = mailed.analysed("2026-01-01 10:00:00 UEFI0256 Critical resource configuration\n")
    assert mailed.faults(loop) == ["post"]


def test_case_28_redirection_away_from_gpus_passes(mailed):
    """leptonai/gpud: eight H100 with ReqRedir+ only on the switch of the NVMe drives."""
    redirect = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
    drives = mailed.bridge("00:1c.0", 0x70, 0x72, kind="Root Port") + mailed.bridge("70:00.0", 0x71, 0x71, acs=redirect)
    harmless = "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans-"
    analysis = mailed.analysed(mailed.machine(8, ports={"acs": harmless}) + drives)
    assert mailed.faults(analysis) == []


def test_case_29_roms_that_could_not_be_claimed_pass(mailed):
    """An untouched R640 (linuxhw/Dmesg)."""
    log = mailed.dmesg(*(f"pci 0000:{bus:02x}:00.0: can't claim BAR 6 [mem 0xfff80000-0xffffffff pref]: no compatible bridge window"
                         for bus in (0x01, 0x18, 0x19, 0x3B, 0xD8)))  # fmt: skip
    analysis = mailed.analysed(log)
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], [])
    assert "5 about ROMs" in mailed.told(analysis, "shortage")


def test_case_30_seventy_two_lines_of_no_space_on_a_healthy_machine_pass(mailed):
    """A healthy ASUS server with eight GPUs: windows for I/O, and the reserve of hot-plug ports with nothing behind them."""
    lines = []
    for port in range(56):
        lines += [
            f"pci 0000:{0x80 + port:02x}:00.0: bridge window [io  size 0x1000]: {what}"
            for what in ("can't assign; no space", "failed to assign")
        ]
    for port in range(16):
        lines += [
            f"pci 0000:{port:02x}:1f.0: bridge window [mem size 0x00200000 64bit pref]: {what}"
            for what in ("can't assign; no space", "failed to assign")
        ]
    analysis = mailed.analysed(mailed.machine(8), mailed.dmesg(*lines))
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], [])
    assert "56 about I/O space" in mailed.told(analysis, "shortage")
    assert "16 about windows" in mailed.told(analysis, "shortage")
