"""Bus numbers: bridges that have none for what is behind them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.picture import Picture
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity


def judge_buses(picture: Picture) -> Iterator[Diagnosis]:
    """Bridges without bus numbers for what is behind them."""
    seen = set()
    for shortage in picture.snapshot.log.buses:
        if shortage.bdf in seen:
            continue
        seen.add(shortage.bdf)
        is_mild = "has subordinate" in shortage.line
        function = picture.snapshot.by_bdf.get(shortage.bdf)
        behind = () if function is None else picture.snapshot.below(function)
        root = picture.root_of(shortage.bdf)
        whole = next((each for each in picture.snapshot.log.roots if each.root == root and each.kind == "bus"), None)
        spans = []
        if function is not None and function.secondary_bus is not None and function.subordinate_bus is not None:
            spans.append(f"bus range {function.secondary_bus:02x}-{function.subordinate_bus:02x} of the bridge is full")
        if whole is not None:
            spans.append(f"{root} has {whole.size} numbers, {whole.start:02x}-{whole.end:02x}")
        yield Diagnosis(
            Severity.WARN if is_mild and behind else Severity.FAIL,
            "buses",
            picture.label(shortage.bdf),
            "no bus number is left for what is behind this bridge",
            shortage.line,
            picture.source_of(shortage.line),
            "; ".join(spans) or "the bus numbers behind this bridge were reserved at boot, and are used up",
            "power fabric and chassis before the host and cold-boot, so that firmware numbers them; or reserve more (hpbussize), "
            "or use a slot whose host bridge has more numbers",
            (shortage.bdf,),
            Link.BUSES,
        )
