"""What the modelled R640 carries beside GPUs: a VGA controller, PERC, network card and NVMe drives, none on a way between GPUs.

Places and ids: R640 BIOS 1.5.6 (linuxhw dmesg collection), PCI id list (pciutils/pciids). Capabilities and defaults of the root
port: the R640 slot 1 root port in the linuxhw lspci collection.
"""

from __future__ import annotations

from dataclasses import replace

from harness.lab.model.pcie_parts import EMPTY, Bar, Hardware, Identity, Kind, Link
from harness.lab.model.pcie_setup import Setup
from harness.lab.model.pcie_windows import KIB, MIB

ROOT_PORT = Identity(0x8086, 0x2030, 0x8086, 0x0000, 0x060400, 0x04)
PLX_SWITCH = Identity(0x10B5, 0x9733, 0x10B5, 0x9733, 0x060400, 0xAA)
SWITCH_BAR = (Bar(0, 256 * KIB),)
REDIRECTING = 0x1D
"""SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+, the pattern of NVIDIA/nccl#2079."""


def onboard(stack: str, setup: Setup) -> tuple[Hardware, ...]:
    """The functions on the root bus of a stack (``PC00``) that has no HBA."""
    match stack:
        case "PC00":
            return (
                Hardware(0x00, Identity(0x8086, 0x2020, 0x1028, 0x0716, 0x060000, 0x04), Kind.INTEGRATED, payload=128),
                root_port(
                    0x1C,
                    Identity(0x8086, 0xA190, 0x1028, 0x0716, 0x060400, 0xF9),
                    Hardware(
                        0x00,
                        Identity(0x102B, 0x0536, 0x1028, 0x0716, 0x030000, 0x04),
                        Kind.ENDPOINT,
                        bars=(Bar(0, 16 * MIB, prefetchable=True), Bar(1, 16 * KIB), Bar(2, 8 * MIB)),
                        link=Link(generation=1, width=1, generation_most=1, width_most=1, target=1),
                        payload=128,
                        payload_most=128,
                        driver="mgag200",
                    ),
                ),
            )
        case "PC01":
            return (
                root_port(
                    0x00,
                    ROOT_PORT,
                    Hardware(
                        0x00,
                        Identity(0x1000, 0x005D, 0x1028, 0x1F47, 0x010400, 0x02),
                        Kind.ENDPOINT,
                        bars=(Bar(1, 64 * KIB, wide=True), Bar(3, MIB, wide=True)),
                        link=Link(width=8, width_most=8),
                        driver="megaraid_sas",
                    ),
                ),
                root_port(
                    0x02,
                    replace(ROOT_PORT, device=0x2032),
                    Hardware(
                        0x00,
                        Identity(0x14E4, 0x16D6, 0x14E4, 0x4020, 0x020000, 0x01),
                        Kind.ENDPOINT,
                        bars=(
                            Bar(0, 64 * KIB, wide=True, prefetchable=True),
                            Bar(2, MIB, wide=True, prefetchable=True),
                            Bar(4, 32 * KIB, wide=True, prefetchable=True),
                        ),
                        link=Link(width=8, width_most=8),
                        driver="bnxt_en",
                    ),
                ),
            )
        case "PC07":
            return (_nvme_branch(setup),)
        case _:
            return ()


def root_port(device: int, identity: Identity, child: Hardware, *, slot: int | None = None) -> Hardware:
    """A root port with one thing below it. R640 root ports can access control and have it off; they are not hot-plug capable."""
    return Hardware(
        device,
        identity,
        Kind.ROOT_PORT,
        below=child.link,
        slot=slot,
        acs=0,
        payload=child.payload,
        driver="pcieport",
        children=(child,),
    )


def _nvme_branch(setup: Setup) -> Hardware:
    """Two drives behind a switch of their own, and an empty bay: whatever its access control says, no GPU's traffic passes it."""
    link = Link(width=4, width_most=4)
    drive = Hardware(
        0x00,
        Identity(0x144D, 0xA822, 0x1028, 0x1FD9, 0x010802, 0x01),
        Kind.ENDPOINT,
        bars=(Bar(0, 32 * KIB, wide=True),),
        link=link,
        driver="nvme",
    )
    bay = Hardware(
        0x00,
        PLX_SWITCH,
        Kind.DOWNSTREAM,
        below=link,
        acs=REDIRECTING if "benign.acs-elsewhere" in setup.faults else 0,
        payload_most=1024,
        driver="pcieport",
        children=(drive,),
    )
    switch = Hardware(
        0x00,
        PLX_SWITCH,
        Kind.UPSTREAM,
        bars=SWITCH_BAR,
        link=Link(width=8),
        payload_most=1024,
        driver="pcieport",
        children=(
            replace(bay, device=0x04),
            replace(bay, device=0x05),
            replace(bay, device=0x06, below=EMPTY, slot=42, hotplug=True, children=()),
        ),
    )
    return root_port(0x00, ROOT_PORT, switch)
