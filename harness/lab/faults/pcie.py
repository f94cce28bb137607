"""Faults of the PCIe tree, and what looks like one and is none.

One fault for each link of the chain, for each end of the judgement of links, and for each view of who sits in a slot. What each
one hits stands in ``harness.lab.model.pcie_setup.VICTIMS``.
"""

from __future__ import annotations

from harness.errors import Blame
from harness.lab.fault import Fault

_RULES = "field rules of the lab: what has gone wrong on benches before"

_CHAIN = (
    Fault(
        "pcie.machine",
        "The way to the operating system leads to the neighbour's machine, which is healthy.",
        "pcie.machine",
        _RULES,
        Blame.BENCH,
    ),
    Fault(
        "pcie.uplink",
        "jbogB was powered on after the host: its uplink's link is up and nothing behind it was ever numbered.",
        "pcie.uplink",
        "an NI PXI chassis powered after its host (National Instruments forum): no bus numbers until a cold start",
    ),
    Fault(
        "pcie.uplink.cable",
        "jbogA's cable is out: its port detects nothing (PresDet-, DLActive-).",
        "pcie.uplink",
        _RULES,
    ),
    Fault(
        "pcie.chain-link",
        "The link of jbogB/slot07 does not come up: PresDet+, DLActive-.",
        "pcie.chain-link",
        "pop-os/pop#3363: Link Down with the card in place",
    ),
    Fault(
        "pcie.buses",
        "The bus range of jbogB's host bridge ends at e2: three ports find no number for the bus behind them.",
        "pcie.buses",
        "Linux drivers/pci/probe.c, and the R640's 35 and 41 bus numbers behind a slot (linuxhw dmesg collection)",
    ),
    Fault(
        "pcie.enumerated",
        "jbogA/slot02 answers no configuration request although its link is up.",
        "pcie.enumerated",
        _RULES,
    ),
    Fault(
        "pcie.enumerated.fallen",
        "jbogA/slot09 was enumerated and fell off the bus since: its configuration space reads all ones.",
        "pcie.enumerated",
        "pop-os/pop#3363; NVRM Xid 79 reports",
    ),
    Fault(
        "pcie.bars",
        "The 32-bit window of jbogB's host bridge has room for eight GPUs: BAR 0 of the last two has no place.",
        "pcie.bars",
        "kata-containers/kata-containers#4358: BAR 0, not BAR 1, finds no space",
    ),
    Fault(
        "pcie.aperture",
        "Firmware passed over BAR 1 of jbogA/slot06, and the kernel says nothing.",
        "pcie.aperture",
        "Linux bugzilla 220775: two of four GPUs behind a switch got no BAR 1, without a message",
    ),
    Fault(
        "pcie.aperture.window",
        "The 64-bit window of jbogB's host bridge is 4 GiB: the last two GPUs get no aperture.",
        "pcie.aperture",
        "NVIDIA/open-gpu-kernel-modules#510: one bus behind a window that is too small",
    ),
)

_LINKS = (
    Fault(
        "pcie.width",
        "The link of jbogA/slot04 trained at x8.",
        "pcie.width",
        _RULES,
        consequences=("p2p.link-under-load", "resnet50.watched"),
    ),
    Fault(
        "pcie.target-speed",
        "The port and the GPU of jbogA/slot07 aim for 2.5 GT/s: the link will not rise under load.",
        "pcie.target-speed",
        "local-inference-lab/rtx6kpro#88: a card stuck below its speed for hours",
        consequences=("p2p.link-under-load", "resnet50.watched"),
    ),
    Fault("pcie.uplink-width", "The uplink of jbogB trained at x8.", "pcie.uplink-width", _RULES),
    Fault("pcie.uplink-speed", "The uplink of jbogA runs at 2.5 GT/s.", "pcie.uplink-speed", _RULES),
    Fault(
        "pcie.acs",
        "The ports of jbogA redirect requests and completions (ACSCtl 0x001d).",
        "pcie.acs",
        "NVIDIA/nccl#2079",
    ),
    Fault(
        "pcie.iommu",
        "The kernel translates: every GPU is in a DMA-FQ domain. Redirection is switched off by kernel option.",
        "pcie.iommu",
        "NVIDIA GPUDirect documentation; pytorch reports of hanging all-reduce that intel_iommu=off cured",
    ),
    Fault(
        "pcie.mps",
        "The port of jbogB/slot05 sends payloads of 512 bytes, its GPU takes 256.",
        "pcie.mps",
        "Dell KB 000216458",
    ),
)

_PARTS = (
    Fault(
        "pcie.identity",
        "An RTX 6000 sits in jbogB/slot03: the same device id, another subsystem id.",
        "pcie.identity",
        "PCI id list (pciutils/pciids): 10de:13d8 and 10de:13d9",
    ),
    Fault(
        "pcie.four-view",
        "The fabric has given the GPU in jbogB/slot07, by its serial number, to a neighbour.",
        "pcie.four-view",
        "Indiana University's Composastructure verifies each device's machine after every change",
    ),
    Fault(
        "pcie.four-view.fabric",
        "The fabric's list does not have the GPU in jbogA/slot03, which everybody else sees.",
        "pcie.four-view",
        _RULES,
    ),
    Fault(
        "pcie.four-view.bmc",
        "The BMC lists every GPU with its serial number but the one in jbogA/slot08.",
        "pcie.four-view",
        "Dell collects its inventory at POST (attribute CollectSystemInventoryOnRestart): what was not there then is not in it",
    ),
    Fault(
        "pcie.four-view.system",
        "The card in jbogB/slot02 is the neighbour's by its serial number; the fabric lists that one in jbogC/slot04.",
        "pcie.four-view",
        _RULES,
    ),
    Fault(
        "pcie.errors",
        "The port of jbogB/slot06 holds a fatal data link protocol error that firmware kept to itself.",
        "pcie.errors",
        "NVIDIA/open-gpu-kernel-modules#937",
    ),
    Fault(
        "pcie.steady",
        "The link of jbogA/slot10 flaps between x16 and x8: in the snapshot it is as wide as ever.",
        "pcie.steady",
        "local-inference-lab/rtx6kpro#88: 1415 changes in two minutes, and healthy in every single look",
    ),
    Fault(
        "pcie.error-rate",
        "The port of jbogB/slot04 corrects two errors a second.",
        "pcie.error-rate",
        "NVIDIA/DCGM modules/health/DcgmHealthWatch.cpp: a bit error rate of 1e-12, 8 a minute on Gen3 x16",
    ),
    Fault(
        "pcie.kernel-log",
        "The link of jbogA/slot05 dropped for a second during the start and came back.",
        "pcie.kernel-log",
        "pop-os/pop#3363: pciehp Link Down, Card not present",
    ),
)

_BENIGN = (
    Fault(
        "benign.idle-gen1",
        "At rest half of the GPU links run at 2.5 GT/s and half at 8 GT/s.",
        None,
        "an ASUS machine with eight healthy GPUs (voipmonitor report); Syllo/nvtop#6",
    ),
    Fault(
        "benign.no-space-io",
        "The kernel finds no space for I/O windows, ROMs, VF BARs and the windows of empty ports.",
        None,
        "an ASUS machine with eight healthy GPUs: 72 such lines (voipmonitor report)",
    ),
    Fault(
        "benign.later-assigned",
        "Two GPUs find no space in the kernel's first pass and all of it in the second.",
        None,
        "Linux drivers/pci/setup-bus.c: pci=realloc makes several passes",
    ),
    Fault(
        "benign.acs-elsewhere",
        "The ports of the NVMe switch redirect; no GPU traffic passes them.",
        None,
        "a Dell machine with eight H100 (leptonai/gpud test data)",
    ),
    Fault(
        "benign.bdfs-moved",
        "All bus numbers below the root ports are three higher than usual; slots and serial numbers are the same.",
        None,
        _RULES,
    ),
    Fault(
        "benign.old-corrected",
        "Every link has 150 corrected errors of the past, and not one more while it is watched.",
        None,
        "healthy H100s with 9 and 150 replays (leptonai/gpud test data)",
    ),
    Fault(
        "benign.bmc-lists-gpus",
        "The BMC lists every GPU, as PCIe devices without serial numbers.",
        None,
        "an R750 with an H100 and iDRAC9 6.00 (NVIDIA/libredfish tests/mockups)",
    ),
    Fault(
        "benign.iommu-identity",
        "The kernel runs an IOMMU with identity domains (iommu=pt) and redirection switched off.",
        None,
        "Linux Documentation/admin-guide/kernel-parameters.txt",
    ),
)

FAULTS: tuple[Fault, ...] = (*_CHAIN, *_LINKS, *_PARTS, *_BENIGN)
