"""Attributes that are requests: they set others and read back at rest, so their own value proves nothing.

WorkloadProfile of 14G to 17G reads NotAvailable or NotConfigured whatever was asked for, and who compares it sets it again
at each run for ever (dell/dellemc-openmanage-ansible-modules#1072). What it did shows in what it sets; a platform names
those beside it. PowerCycleRequest works likewise and asks for a power cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.limits import Limit, Value

AT_REST: Mapping[str, frozenset[str]] = {
    "WorkloadProfile": frozenset({"NotAvailable", "NotConfigured"}),
    "PowerCycleRequest": frozenset({"None"}),
}
"""Requests, and what they read when nothing is asked for."""


def is_at_rest(name: str, value: Value | None) -> bool:
    """True for a request that reads as it always does: asked for or not cannot be told by it."""
    return value in AT_REST.get(name, frozenset())


def without_done(wrong: Mapping[str, Limit], current: Mapping[str, Value | None], wanted: Mapping[str, Limit]) -> dict[str, Limit]:
    """What differs, less the requests whose effects are all there: the other wanted settings hold.

    A request that stands alone has no effects to look at, and is asked for each time.
    """
    open_requests = {name for name in wrong if is_at_rest(name, current.get(name))}
    are_alone = not set(wanted) - open_requests
    if set(wrong) <= open_requests and not are_alone:
        return {}
    return dict(wrong)
