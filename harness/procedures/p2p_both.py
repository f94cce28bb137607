"""Judging pairs that copied in both directions at once: full duplex gives about twice the rate of one direction.

ratio 1.7 .. 2.0   each direction has its own line (NVIDIA DGX-2: 268 GB/s both ways, 145 one way)
ratio about 1      one line for both: access control sends the copies up to the root complex, or the link is shared
                   (voipmonitor/rtx6kpro: 50 instead of 103 GB/s with ACS redirects on)
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.p2p import Pair, Report
from harness.limits import Limit, Outcome
from harness.measurement import Measurement
from harness.procedures.finding import taken
from harness.procedures.p2p_corruption import redirects_between
from harness.procedures.p2p_patterns import name_pair
from harness.procedures.places import Place


def judge_both(
    pair: Pair, report: Report, places: Mapping[int, Place], limit: Limit
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Measurements and explanations of one pair, told by its GPU with the lower index.

    Nothing for a report of a worker that tried no pair both ways. The slower direction alone is what the sum is compared with.
    """
    back = report.pair(pair.target, pair.source)
    if pair.source > pair.target or back is None or not any(other.both is not None for other in report.pairs):
        return (), ()
    rates = [rate for rate in (pair.best_enabled, back.best_enabled) if rate]
    if len(rates) < 2:
        return (), ()
    name = name_pair(pair.source, pair.target, places)
    ratio = None if pair.both is None else pair.both / min(rates)
    figures = f"{pair.both or 0:g} GB/s both ways at once, {pair.best_enabled:g} and {back.best_enabled:g} one way"
    measured = taken("p2p.both-ways", ratio, name, limit, note=figures if ratio is not None else "not copied both ways at once")
    if measured.outcome is not Outcome.FAIL:
        return (measured,), ()
    on_the_way = redirects_between(pair, report)
    cause = (
        f"access control on the way: {on_the_way}" if on_the_way else "switch ports that redirect (ACS), or a line that they share"
    )
    return (measured,), (f"{name}: {figures}: both directions go over one and the same line; {cause}",)
