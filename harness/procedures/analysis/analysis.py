"""From a picture to what a person reads: counts along the chain, diagnoses, and what could not be told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.devices.dumps.harvest import Format
from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Unread
from harness.platform import Platform
from harness.procedures.analysis.bars import judge_bars, judge_resizable
from harness.procedures.analysis.buses import judge_buses
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity, fold
from harness.procedures.analysis.driver import judge_driver_lines, judge_views, judge_xids
from harness.procedures.analysis.firmware import judge_firmware
from harness.procedures.analysis.gpus import judge_gpus
from harness.procedures.analysis.iommu import judge_iommu
from harness.procedures.analysis.numa import judge_numa
from harness.procedures.analysis.paths import judge_gone, judge_links, judge_peers, judge_registers, judge_tightest
from harness.procedures.analysis.reports import judge_bottlenecks, judge_error_owner, judge_reports
from harness.procedures.analysis.samples import judge_samples
from harness.procedures.analysis.shortages import judge_shortages, judge_windows
from harness.procedures.analysis.topology import judge_topology
from harness.procedures.chain import Loss, trace

_JUDGES = (
    judge_firmware,
    judge_gone,
    judge_registers,
    judge_buses,
    judge_bars,
    judge_resizable,
    judge_shortages,
    judge_windows,
    judge_samples,
    judge_links,
    judge_tightest,
    judge_peers,
    judge_driver_lines,
    judge_reports,
    judge_xids,
    judge_gpus,
    judge_numa,
    judge_topology,
    judge_iommu,
    judge_views,
    judge_bottlenecks,
    judge_error_owner,
)


@dataclass(frozen=True)
class Analysis:
    """What was found. ``counts`` are the links of the chain that these files tell of, as (what is counted, GPUs)."""

    picture: Picture
    diagnoses: tuple[Diagnosis, ...]
    counts: tuple[tuple[str, int], ...]
    unread: tuple[Unread, ...]

    @property
    def failed(self) -> bool:
        """True where something is wrong."""
        return any(diagnosis.severity is Severity.FAIL for diagnosis in self.diagnoses)

    def of(self, severity: Severity) -> tuple[Diagnosis, ...]:
        """The diagnoses of one severity."""
        return tuple(diagnosis for diagnosis in self.diagnoses if diagnosis.severity is severity)


def analyse(picture: Picture, platform: Platform | None = None) -> Analysis:
    """Judge a picture, and what a platform expects of it."""
    found = [diagnosis for judge in _JUDGES for diagnosis in judge(picture)]
    if platform is not None:
        found += _against(picture, platform)
    diagnoses = fold(found)
    return Analysis(picture, diagnoses, _counts(picture, diagnoses, platform), picture.snapshot.unread)


def _counts(picture: Picture, diagnoses: tuple[Diagnosis, ...], platform: Platform | None) -> tuple[tuple[str, int], ...]:
    """GPUs past each link; a link that no file tells of is left out."""
    bus = [function for function in picture.on_bus if not function.is_gone]
    counts = [] if platform is None else [("expected", len(platform.slots))]
    if picture.on_bus:
        counts.append(("enumerated", len(picture.on_bus)))
    if bus and any(function.bars for function in bus):
        lost = {part for each in diagnoses if each.severity is Severity.FAIL and each.link is Link.BARS for part in each.parts}
        counts.append(("BARs assigned", sum(function.bdf not in lost for function in bus)))
    bound = [function for function in bus if function.driver]
    if bound:
        counts.append(("driver bound", len(bound)))
    elif bus and (
        refused := {each.parts for each in diagnoses if each.check == "bound"}
        | {(bad.bdf,) for bad in picture.snapshot.log.invalid_bars}
    ):
        parts = {part for group in refused for part in group}
        counts.append(("driver bound", sum(function.bdf not in parts for function in bus)))
    if picture.lists_driver:
        counts.append(("nvidia-smi", sum(not gpu.lost for gpu in picture.gpus)))
    return tuple(counts)


def _against(picture: Picture, platform: Platform) -> Iterator[Diagnosis]:
    """What the platform expects: its BIOS, and every slot followed through the tree as the pcie stage does."""
    bios = picture.system.get("bios", "")
    if bios and bios in platform.bios.deny:
        yield Diagnosis(
            Severity.FAIL,
            "bios",
            f"BIOS {bios}",
            "this BIOS version is on the platform's deny list",
            "",
            "",
            "machines with it are known not to boot with GPUs",
            "change it before anything else, with a way to recover out of band",
        )
    if not picture.has(Format.SYSFS, Format.LSPCI, Format.LSPCI_HEX):
        return
    chain = trace(picture.snapshot, platform, platform.slots)
    together: dict[tuple[str, str], list[Loss]] = {}
    for loss in (*chain.uplinks, *chain.losses):
        together.setdefault((loss.path, loss.link.value), []).append(loss)
    for (path, check), losses in together.items():
        first = losses[0]
        places = ", ".join(dict.fromkeys(loss.place for loss in losses))
        function = picture.snapshot.at(path)
        yield Diagnosis(
            Severity.FAIL,
            check,
            places,
            f"expected by the platform and lost at {path}",
            first.evidence,
            "",
            first.cause,
            first.do,
            () if function is None else (function.bdf,),
            Link.BARS if check in ("bars", "aperture") else Link.OTHER,
        )
