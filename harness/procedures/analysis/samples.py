"""What changes between several samples of one machine: links that flap, BARs that move or go from boot to boot."""

from __future__ import annotations

from collections.abc import Iterator

from harness.devices.dumps.picture import Picture
from harness.devices.pcie import Function
from harness.procedures.analysis.diagnosis import Diagnosis, Link, Severity
from harness.procedures.analysis.room import size_text


def judge_samples(picture: Picture) -> Iterator[Diagnosis]:
    """Compare the samples of each GPU and of the bridges above it; nothing where there is one sample."""
    wanted = {hop.bdf for function in picture.on_bus for hop in picture.snapshot.chain_up(function)}
    for bdf, samples in picture.samples.items():
        if bdf in wanted:
            yield from _flapping(picture, bdf, [function for _, function in samples])
            yield from _moved(picture, bdf, samples)


def _flapping(picture: Picture, bdf: str, samples: list[Function]) -> Iterator[Diagnosis]:
    widths = [function.link.current_width for function in samples if function.link.current_width]
    speeds = [function.link.current_speed for function in samples if function.link.current_speed]
    is_gpu = any(function.is_gpu for function in samples)
    if len(set(widths)) > 1:
        yield Diagnosis(
            Severity.FAIL,
            "flapping",
            picture.label(bdf),
            f"its width changes between {len(widths)} samples: x{min(widths)} to x{max(widths)}",
            "",
            "",
            "a marginal link that retrains",
            "reseat card and cable; sample again under load",
            (bdf,),
        )
    if len(set(speeds)) > 1:
        yield Diagnosis(
            Severity.NOTE if is_gpu else Severity.WARN,
            "flapping",
            picture.label(bdf),
            f"its speed changes between {len(speeds)} samples: {min(speeds):g} to {max(speeds):g} GT/s"
            + (", as a GPU's does between rest and load" if is_gpu else ""),
            "",
            "",
            "" if is_gpu else "a link that retrains",
            "" if is_gpu else "sample again under load",
            (bdf,),
        )


def _moved(picture: Picture, bdf: str, samples: tuple[tuple[str, Function], ...]) -> Iterator[Diagnosis]:
    regions = [
        (source, {bar.index: bar.size for bar in function.bars if bar.index < 6 and bar.is_memory and bar.assigned})
        for source, function in samples
        if function.bars
    ]
    if not any(function.is_gpu for _, function in samples) or len(regions) < 2:
        return
    best = max((sizes for _, sizes in regions), key=lambda sizes: (len(sizes), sum(sizes.values())))
    for source, sizes in regions:
        differing = [
            f"Region {index}: {size_text(size)} elsewhere, {size_text(sizes[index]) if index in sizes else 'none'} here"
            for index, size in best.items()
            if sizes.get(index) != size
        ]
        if differing:
            yield Diagnosis(
                Severity.FAIL,
                "boots",
                picture.label(bdf),
                f"its regions differ from boot to boot: {'; '.join(differing)}",
                "",
                source,
                "firmware or kernel assigned address space in another order that time",
                "keep the log of the bad boot and compare its windows with those of a good one",
                (bdf,),
                Link.BARS,
            )
