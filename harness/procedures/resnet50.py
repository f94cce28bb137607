"""Judging the ResNet-50 smoke test: the same answer from like GPUs, no straggler, finite numbers, floors, scaling.

A floor belongs to one software identity (framework, precision, compiler, batch). For another identity the figures are recorded
and nothing is judged: eight RTX 8000 trained at 7,934 images/s with fp16 and XLA, and at 3,100 without XLA
(lambdal/lambda-tensorflow-benchmark).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.devices.resnet50 import FULL_SIZE, Identity, Rank, Report, Solo
from harness.limits import Limit, Outcome, exactly
from harness.platform import Floor, Resnet50
from harness.procedures.finding import Finding, taken
from harness.procedures.places import Place
from harness.procedures.resnet50_watch import judge_watched
from harness.units import number

FEWEST_WINDOWS = 5
"""Below this a spread says nothing; public logs with ten tell healthy runs (1.7 % at most) from sick ones (4.2 % at least)."""

LEARNED = 0.9
"""A network that trains learns one fixed batch by heart: after a few steps its loss is below this share of the first."""

NOT_JUDGED = "baseline recorded, not judged"


def name_devices(report: Report) -> dict[int, Place]:
    """Names for the devices of a machine without a platform: ``GPU 3 (0000:3f:00.0)``, or ``rank 1`` on a processor."""
    if report.identity.device == "cpu":
        return {gpu.index: Place(f"rank {gpu.rank}") for gpu in report.gpus}
    return {gpu.index: Place(f"GPU {gpu.index}{f' ({gpu.address})' if gpu.address else ''}") for gpu in report.gpus}


def judge_alone(report: Report, limits: Resnet50) -> list[tuple[str, Finding]]:
    """Every check of a machine without a platform, by its id and, for checks of one device, its name.

    How fast ranks that share one processor are says nothing about a device, so there only what they computed is judged.
    """
    places = name_devices(report)
    findings = [(f"resnet50.hash {place}", judge_hash(report, places, index)) for index, place in places.items()]
    findings = findings if len(places) > 1 else []
    findings += [("resnet50.nan", judge_finite(report, places)), ("resnet50.ranks", judge_ranks(report, places))]
    if report.identity.device != "cpu":
        if len(places) > 1:
            findings += [
                (f"resnet50.straggler {place}", judge_straggler(report, places, index, limits.solo))
                for index, place in places.items()
            ]
            findings.append(("resnet50.efficiency", judge_efficiency(report, limits.efficiency)))
        findings.append(("resnet50.spread", judge_spread(report, limits.spread)))
        findings += [(f"resnet50.watched {place}", judge_watched(report, places, index)) for index, place in places.items()]
    findings.append(("resnet50.floor", judge_floor(report, places, limits.floors, len(places))))
    return findings


def judge_hash(report: Report, places: Mapping[int, Place], index: int) -> Finding:
    """Did the GPU compute, alone, bit for bit what its fellows did?"""
    slot, solo = places[index].slot, report.solo(index)
    hashes = [other.hash for other in report.solos if other.hash]
    if solo is None or not solo.hash:
        return Finding(unmeasured=f"{slot}: no solo run on it{f': {report.untried}' if report.untried else ''}")
    if len(hashes) < 2:
        return Finding((taken("resnet50.hash", solo.hash, slot),), unmeasured=f"{slot}: no other GPU to compare with")
    top, votes = Counter(hashes).most_common(1)[0]
    if 2 * votes <= len(hashes):
        kinds = len(set(hashes))
        text = f"{slot}: {len(hashes)} GPUs gave {kinds} different hashes and no majority: none of them can be trusted"
        return Finding((taken("resnet50.hash", solo.hash, slot, exactly("a majority")),), text)
    measured = taken("resnet50.hash", solo.hash, slot, exactly(top))
    if solo.hash == top:
        return Finding((measured,))
    text = (
        f"{slot} computes differently: {solo.hash} where {votes} of {len(hashes)} GPUs have {top}, from the same seeded steps. "
        "Silent corruption in its memory or arithmetic, or another kind of card: do not use it"
    )
    return Finding((measured,), text)


def judge_straggler(report: Report, places: Mapping[int, Place], index: int, limit: Limit) -> Finding:
    """Is the GPU, alone, about as fast as the median of all?"""
    slot, solo, middle = places[index].slot, report.solo(index), report.median_solo
    if solo is None or solo.rate is None or not middle:
        return Finding(unmeasured=f"{slot}: no solo run on it{f': {report.untried}' if report.untried else ''}")
    ratio = taken("resnet50.solo", solo.rate / middle, slot, limit, note=f"{solo.rate:g} images/s, median {middle:g}")
    rate = taken("resnet50.solo-rate", solo.rate, slot, unit="images/s")
    if ratio.outcome is not Outcome.FAIL:
        return Finding((rate, ratio))
    told = report.told(index)
    text = f"{slot} is a straggler: {solo.rate:g} images/s alone, median {middle:g}; in step with it all GPUs are as slow"
    why = "usually heat or power: look at its cooling, then at its power cable, then at the link (p2p.link-under-load)"
    return Finding((rate, ratio), f"{text}\nwhile training: {told if told is not None else 'no telemetry of it'}\n{why}")


def judge_finite(report: Report, places: Mapping[int, Place]) -> Finding:
    """Was every loss and gradient a finite number?"""
    bad_windows = [window.number for window in report.windows if window.loss is None]
    bad_ranks = sorted((rank.bad_step, rank.index) for rank in report.ranks if rank.bad_step is not None)
    bad_solos = sorted((solo.bad_step, solo.index) for solo in report.solos if solo.bad_step is not None)
    without_loss = sorted(solo.index for solo in report.solos if solo.bad_step is None and solo.loss is None)
    if not report.windows and not report.ranks and not bad_solos and not without_loss:
        return _untried(report)
    measurements = [
        taken("resnet50.windows-not-finite", len(bad_windows), "", exactly(0)),
        taken("resnet50.ranks-not-finite", len(bad_ranks), "", exactly(0)),
        taken("resnet50.solos-not-finite", len(bad_solos) + len(without_loss), "", exactly(0)),
    ]
    lines = []
    if bad_solos:
        lines.append(f"alone: {', '.join(f'{_name(index, places)} at step {step}' for step, index in bad_solos)}")
    if without_loss:
        lines.append(f"alone: {', '.join(_name(index, places) for index in without_loss)} ended without a finite loss")
    if bad_ranks:
        first = bad_ranks[0][0]
        culprits = ", ".join(_name(index, places) for step, index in bad_ranks if step == first)
        lines.append(
            f"first on {culprits} at step {first}; {sum(step != first for step, _ in bad_ranks)} GPUs followed through the sum"
        )
        lines.append(f"suspect {culprits}: its memory or arithmetic (gpu.ecc, resnet50.hash), or the way to it (p2p.integrity)")
    if bad_windows:
        lines.append(f"the loss is no finite number from window {bad_windows[0]} on")
    tried = [solo for solo in report.solos if solo.first_loss is not None and solo.loss is not None]
    if tried:
        dull = [solo for solo in tried if not _learned(solo)]
        measurements.append(taken("resnet50.solos-not-learning", len(dull), "", exactly(0)))
        lines += [
            f"alone: {_name(solo.index, places)} does not learn one fixed batch: its loss went from {solo.first_loss:.3g} to "
            f"{solo.loss:.3g} (below {LEARNED:.0%} of the first is expected)"
            for solo in dull
        ]
    return Finding(tuple(measurements), "\n".join(lines))


def judge_floor(report: Report, places: Mapping[int, Place], floors: Sequence[Floor], present: int) -> Finding:
    """Is the throughput what this software reaches on ``present`` healthy GPUs: in all, and per GPU in the median window?"""
    total, middle = report.total, report.median_per_gpu
    if total is None or middle is None:
        return _untried(report)
    floor = floor_for(report.identity, floors)
    if floor is None:
        measurements = (
            taken("resnet50.total", total, "", unit="images/s", note=NOT_JUDGED),
            taken("resnet50.median", middle, "", unit="images/s", note=NOT_JUDGED),
        )
        known = "; ".join(_identity_of(floor) for floor in floors) or "none"
        text = f"{NOT_JUDGED}: {number(round(total))} images/s with {report.identity.details}; floors are known for: {known}"
        return Finding(measurements, unmeasured=text)
    limit = floor.images_per_second_per_gpu
    measurements = (
        taken("resnet50.total", total, "", _times(limit, present), note=report.identity.details),
        taken("resnet50.median", middle, "", limit, note=f"{len(report.windows)} windows, {len(report.gpus)} GPUs"),
    )
    if not any(measured.outcome is Outcome.FAIL for measured in measurements):
        return Finding(measurements)
    return Finding(measurements, _why_slow(report, places, floor, present))


def judge_efficiency(report: Report, limit: Limit) -> Finding:
    """Are all GPUs together nearly as many times as fast as one?"""
    if report.efficiency is None:
        return _untried(report)
    note = f"{len(report.gpus)} GPUs, {report.total:.0f} images/s, one alone {report.median_solo:.0f}"
    measured = taken("resnet50.efficiency", report.efficiency, "", limit, note=note)
    if measured.outcome is not Outcome.FAIL:
        return Finding((measured,))
    transport = "unknown" if report.transport is None else str(report.transport)
    text = f"{note}: {report.efficiency:.0%} of perfect scaling; channels of the all-reduce: {transport}"
    if report.transport is not None and report.transport.shm > report.transport.p2p:
        text += "; most go through host memory (NCCL uses peer access below one host bridge only, unless NCCL_P2P_LEVEL says SYS)"
    return Finding((measured,), text)


def judge_spread(report: Report, limit: Limit) -> Finding:
    """Do the windows of the run have nearly one and the same rate?"""
    if len(report.windows) < FEWEST_WINDOWS or report.spread is None:
        why = f"a spread takes {FEWEST_WINDOWS} windows, there are {len(report.windows)}"
        return Finding(unmeasured=f"{why}{f': {report.untried}' if report.untried else ''}")
    rates = [window.rate for window in report.windows]
    note = f"{len(rates)} windows from {min(rates):g} to {max(rates):g} images/s"
    measured = taken("resnet50.spread", report.spread, "", limit, note=note)
    if measured.outcome is not Outcome.FAIL:
        return Finding((measured,))
    return Finding((measured,), f"{note}: the rate is not steady. Look at throttling, at the loader, and at who else uses the host")


def judge_ranks(report: Report, places: Mapping[int, Place]) -> Finding:
    """Do all ranks hold the same parameters at the end, and does the all-reduce add up?"""
    sums = report.allreduce
    if not report.ranks or (sums is None and len(report.ranks) < 2):
        return _untried(report)
    silent = sorted({gpu.rank for gpu in report.gpus} - {rank.rank for rank in report.ranks})
    if silent:
        return Finding(unmeasured=f"{', '.join(f'rank {rank}' for rank in silent)} did not say what parameters it ended with")
    votes = Counter(rank.hash for rank in report.ranks).most_common()
    top = votes[0][0]
    odd = [rank for rank in report.ranks if rank.hash != top]
    took_part = len(report.ranks) if sums is None else sums.ranks
    measurements = [
        taken("resnet50.ranks", took_part, "", exactly(len(report.gpus)), note="ranks that took part in the all-reduce"),
        taken("resnet50.parameter-hashes", len(votes), "", exactly(1)),
    ]
    if sums is not None:
        note = f"{sums.elements} elements over {sums.ranks} ranks"
        measurements.append(taken("resnet50.wrong-sums", sums.wrong, "", exactly(0), note=note))
    lines = []
    if odd and 2 * votes[0][1] <= len(report.ranks):
        lines.append(
            f"{len(report.ranks)} ranks ended with {len(votes)} different sets of parameters, and no majority says which is right"
        )
    elif odd:
        where = ", ".join(_with_rank(rank, places) for rank in odd)
        lines.append(f"parameters differ on {where} from those of {votes[0][1]} other ranks")
    if sums is not None and sums.wrong:
        by_rank = {rank.rank: rank.index for rank in report.ranks}
        where = ", ".join(_name(by_rank[rank], places) if rank in by_rank else f"rank {rank}" for rank in sums.wrong_ranks)
        lines.append(f"the all-reduce gave {sums.wrong} wrong sums{f' on {where}' if where else ''}")
    if lines:
        lines.append("data was lost or changed on the way (p2p.integrity), or in a GPU's own arithmetic (resnet50.hash, gpu.ecc)")
    unmeasured = "" if sums is not None else report.untried or "the sums of the all-reduce were not checked"
    return Finding(tuple(measurements), "\n".join(lines), unmeasured=unmeasured)


def floor_for(identity: Identity, floors: Sequence[Floor]) -> Floor | None:
    """The floor of exactly this software, or None. No floor is for smaller images, or for training without a GPU."""
    if identity.size != FULL_SIZE or identity.device != "cuda":
        return None
    wanted = (identity.framework, identity.precision, identity.compiler, identity.batch)
    return next((floor for floor in floors if (floor.framework, floor.precision, floor.compiler, floor.batch) == wanted), None)


def _learned(solo: Solo) -> bool:
    return solo.loss is None or solo.first_loss is None or solo.loss < LEARNED * solo.first_loss


def _why_slow(report: Report, places: Mapping[int, Place], floor: Floor, present: int) -> str:
    lines = [f"identity of this run and of the floor are the same: {_identity_of(floor)} (run: {report.identity.details})"]
    if len(report.gpus) < present:
        taking_part = {places[gpu.index].slot for gpu in report.gpus if gpu.index in places}
        lines.append(f"only {len(report.gpus)} of the {present} GPUs present took part ({', '.join(sorted(taking_part))})")
    rates = [solo.rate for solo in report.solos if solo.rate is not None]
    middle = report.median_solo
    if rates and middle:
        uneven = (max(rates) - min(rates)) / middle
        if uneven <= 0.05:
            lines.append(f"even on all {len(rates)} (solo runs within {uneven:.1%} of each other): the software path, not a part")
        else:
            slowest = min((solo for solo in report.solos if solo.rate is not None), key=lambda solo: solo.rate or 0.0)
            lines.append(f"uneven: slowest alone is {_name(slowest.index, places)} with {slowest.rate:g} of {middle:g} images/s")
    if report.efficiency is not None:
        lines.append(f"scaling {report.efficiency:.0%}")
    return "\n".join(lines)


def _identity_of(floor: Floor) -> str:
    return f"{floor.framework} {floor.precision} {floor.compiler} batch {floor.batch}"


def _times(limit: Limit, count: int) -> Limit:
    """The limit of one GPU for so many of them."""
    bounds = tuple(float(bound) * count for bound in limit.bounds)
    return replace(limit, bounds=bounds, marginal=tuple(bound * count for bound in limit.marginal))


def _name(index: int, places: Mapping[int, Place]) -> str:
    return places[index].slot if index in places else f"GPU {index}"


def _with_rank(rank: Rank, places: Mapping[int, Place]) -> str:
    name, number = _name(rank.index, places), f"rank {rank.rank}"
    return name if name == number else f"{name} ({number})"


def _untried(report: Report) -> Finding:
    return Finding(unmeasured=report.untried or "the worker did not train on all GPUs together")
