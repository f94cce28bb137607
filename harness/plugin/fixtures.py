"""The fixtures that suites use: handles, which ask and never remember, and facts, which are read once a run.

A fact is a session fixture and owns its own track of the tape; tests judge facts. A fact that cannot be read fails the first
test that needs it and blocks the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.bench import Bench
from harness.clock import Clock
from harness.consent import Consent
from harness.devices.console import Console
from harness.devices.fabric import Fabric, FabricPart
from harness.devices.firmware import Firmware
from harness.devices.gpu import Gpu, Inventory, join, read_inventory
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.idrac_pcie import BmcInventory
from harness.devices.p2p import Report as P2pReport
from harness.devices.p2p import run_p2p
from harness.devices.pcie import Snapshot, read_snapshot
from harness.devices.pcie.watch import Watch, watch_links
from harness.devices.redfish import Redfish
from harness.devices.resnet50 import Report as Resnet50Report
from harness.devices.resnet50 import run_resnet50
from harness.errors import BenchError, DeviceError, NotApplicable
from harness.part import Part
from harness.platform import Platform
from harness.plugin.evidence import of_bios, of_boot
from harness.plugin.measuring import Measure
from harness.plugin.run import RUN, Run
from harness.procedures.bios import BiosStory, bring_bios
from harness.procedures.boot import BootStory, bring_up
from harness.procedures.chain import Chain, trace
from harness.procedures.contact import Contact, make_contact
from harness.procedures.exhibits import show_bios, show_boot, show_firmware, show_p2p, show_pcie, show_resnet50


@pytest.fixture(scope="session")
def bringup_run(request: pytest.FixtureRequest) -> Run:
    """The run itself; suites need the fixtures below instead."""
    return request.config.stash[RUN]


@pytest.fixture(scope="session")
def bench(bringup_run: Run) -> Bench:
    """Where the machine is."""
    return bringup_run.bench


@pytest.fixture(scope="session")
def platform(bringup_run: Run) -> Platform:
    """What the machine should be."""
    return bringup_run.platform


@pytest.fixture(scope="session")
def clock(bringup_run: Run) -> Clock:
    """The one way to wait."""
    return bringup_run.clock


@pytest.fixture(scope="session")
def consent(bringup_run: Run) -> Consent:
    """What the person at the keyboard agreed to."""
    return bringup_run.consent


@pytest.fixture(scope="session")
def bmc(bringup_run: Run) -> Idrac:
    """The management controller."""
    if bringup_run.lanes.bmc is None:
        raise NotApplicable("the bench has no [bmc]")
    return Idrac(Redfish(bringup_run.lanes.bmc, bringup_run.clock), user=bringup_run.lanes.bmc_user)


@pytest.fixture(scope="session")
def host(bringup_run: Run) -> Host:
    """The operating system of the machine."""
    opened = bringup_run.host()
    if opened is None:
        raise NotApplicable("the bench has no [host]")
    return opened


@pytest.fixture(scope="session")
def console(bringup_run: Run) -> Console | None:
    """The serial console, None where the bench has none."""
    stream = bringup_run.lanes.console
    return None if stream is None else Console(stream, bringup_run.clock)


@pytest.fixture(scope="session")
def fabric(bringup_run: Run) -> Fabric | None:
    """The fabric's controller, None where the bench has none."""
    asks = bringup_run.lanes.fabric
    return None if asks is None else Fabric(asks)


@pytest.fixture(scope="session")
def contact(bringup_run: Run, bmc: Idrac) -> Contact:
    """Fact: who answers at the bench's BMC, or why nobody does."""
    made = make_contact(bmc, bringup_run.bench.service_tag)
    bringup_run.identify(made.identity())
    bringup_run.firsts.lc_baseline = 0 if made.lc_baseline is None else made.lc_baseline.number
    return made


@pytest.fixture(scope="session")
def firmware(bringup_run: Run, contact: Contact, bmc: Idrac) -> tuple[Firmware, ...]:
    """Fact: the firmware of the machine's parts; not asked for where the platform has no baseline."""
    found = tuple(bmc.firmware()) if bringup_run.platform.firmware else ()
    version = "" if contact.system is None else contact.system.bios_version
    bringup_run.show("firmware", show_firmware(found, version, bringup_run.platform))
    return found


@pytest.fixture(scope="session")
def bios(bringup_run: Run, contact: Contact, bmc: Idrac) -> BiosStory:  # noqa: ARG001 - contact comes first
    """Fact: what came of bringing the BIOS settings to what the platform wants."""
    story = bring_bios(
        bmc,
        bringup_run.platform,
        bringup_run.consent,
        bringup_run.handover,
        expected_tag=bringup_run.bench.service_tag,
        host=bringup_run.host(),
    )
    bringup_run.changed = story.changed
    bringup_run.keep(story.stopped_by, of_bios(story))
    bringup_run.show("bios", show_bios(story, bringup_run.platform))
    return story


@pytest.fixture(scope="session")
def boot(bringup_run: Run, contact: Contact, bmc: Idrac, console: Console | None) -> BootStory:
    """Fact: what came of starting the machine."""
    story = bring_up(
        bmc,
        bringup_run.host(),
        console,
        bringup_run.platform,
        bringup_run.consent,
        bringup_run.handover,
        expected_tag=bringup_run.bench.service_tag,
        since=contact.lc_baseline,
        changed=bringup_run.changed,
    )
    bringup_run.keep(story.stopped_by, of_boot(story))
    bringup_run.show("boot", show_boot(story, bringup_run.platform))
    return story


@pytest.fixture(scope="session")
def watched_boot(request: pytest.FixtureRequest, bringup_run: Run) -> BootStory | None:
    """What came of starting the machine, None where this run starts none: only to look at it must not restart it."""
    is_watched = any(case.stage == "boot" for case in bringup_run.planned)
    return request.getfixturevalue("boot") if is_watched else None


@pytest.fixture(scope="session")
def pcie(bringup_run: Run, host: Host) -> Snapshot:
    """Fact: the PCIe tree as the operating system sees it, idle."""
    snapshot = read_snapshot(host)
    bringup_run.firsts.kernel_log = snapshot.log.lines
    return snapshot


@pytest.fixture(scope="session")
def links_watched(host: Host, platform: Platform) -> Watch | None:
    """Fact: the links of the tree and its corrected errors, watched for half a minute; None where the platform has no GPUs."""
    return None if platform.gpu is None else watch_links(host)


@pytest.fixture(scope="session")
def chain(bringup_run: Run, pcie: Snapshot, fabric: Fabric | None) -> Chain:
    """Which link of the enumeration chain lost which slot; with a fabric, its list is where the chain begins."""
    traced = trace(pcie, bringup_run.platform, bringup_run.slots, _attached(fabric))
    for slot in bringup_run.slots:
        function = pcie.at(slot.path)
        if function is not None:
            bringup_run.know(Part(slot.name, address=function.bdf))
    bringup_run.show("pcie", show_pcie(pcie, bringup_run.platform, bringup_run.slots, traced))
    return traced


def _attached(fabric: Fabric | None) -> tuple[FabricPart, ...] | None:
    """What the fabric says, as far as it says anything: a chain can be traced without it, ``fabric_parts`` cannot be read."""
    try:
        return None if fabric is None else fabric.parts()
    except (BenchError, DeviceError):
        return None


@pytest.fixture(scope="session")
def fabric_parts(fabric: Fabric | None) -> tuple[FabricPart, ...] | None:
    """Fact: what the fabric says is attached, None without a fabric."""
    return None if fabric is None else fabric.parts()


@pytest.fixture(scope="session")
def bmc_parts(bringup_run: Run, fabric: Fabric | None) -> BmcInventory | None:
    """Fact: the PCIe devices that the BMC lists, as a further view of the fabric's parts; None without a fabric or a BMC."""
    if fabric is None or bringup_run.lanes.bmc is None:
        return None
    try:
        return Idrac(Redfish(bringup_run.lanes.bmc, bringup_run.clock)).pcie_devices()
    except (BenchError, DeviceError) as error:
        return BmcInventory(unread=f"the BMC's list of PCIe devices: {error}")


@pytest.fixture(scope="session")
def gpus(bringup_run: Run, host: Host) -> Inventory:
    """Fact: the GPUs as the driver sees them."""
    seen = read_inventory(host)
    if seen.driver:
        bringup_run.identify({"driver": seen.driver})
    return seen


@pytest.fixture(scope="session")
def gpu_in(bringup_run: Run, gpus: Inventory, pcie: Snapshot) -> Mapping[str, Gpu]:
    """The GPU in each slot that the driver sees, by slot name."""
    joined = join(gpus, pcie, bringup_run.slots)
    for slot, gpu in joined.items():
        known = bringup_run.part(slot)
        bringup_run.know(replace(known, model=gpu.name or "", serial=gpu.serial or "", firmware=gpu.vbios or ""))
    return joined


@pytest.fixture(scope="session")
def p2p(bringup_run: Run, host: Host) -> P2pReport:
    """Fact: what every GPU could read and write of every other one."""
    report = run_p2p(host, force=bringup_run.consent.force_p2p, on_line=bringup_run.following("p2p"))
    bringup_run.show("p2p", show_p2p(report))
    return report


@pytest.fixture(scope="session")
def resnet50(bringup_run: Run, host: Host) -> Resnet50Report:
    """Fact: what the training smoke test did."""
    report = run_resnet50(host, on_line=bringup_run.following("resnet50"))
    bringup_run.show("resnet50", show_resnet50(report))
    return report


@pytest.fixture
def measure(request: pytest.FixtureRequest, bringup_run: Run) -> Measure:
    """Record a value with its limit; all violated limits of a test fail it together at its end."""
    return bringup_run.measure_for(request.node)
