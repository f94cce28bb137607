"""``bringup pcie budget``: whether GPUs fit, before any restart.

BUDGET of lqd8360, no machine was touched: 20 GPUs fit as 10 + 10
<model>    one line of verdict each
table      per slot: need, window, left
at POST    what firmware may stumble over
in Linux   what Linux may
settings   which BIOS attribute changes which figure
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from shutil import get_terminal_size

from harness import locator
from harness.errors import UsageMistake
from harness.platform import Platform, Stack
from harness.procedures.budget.budget import Budget, Line, Resource, Share, budgets
from harness.procedures.budget.growth import grow_within
from harness.procedures.budget.risks import KNOBS, When, risks, told
from harness.units import amount, number

_NARROW, _BROAD = 60, 132
_GIB = 1 << 30


def make(platform: str, gpus: int | None, split: str, model: str) -> tuple[Platform, tuple[Budget, ...]]:
    """The budgets that a command line asks for. Raises UsageMistake or ConfigError with one line."""
    if gpus is not None and split:
        raise UsageMistake("--gpus and --split exclude each other: a split says how many there are")
    found, file = locator.find_platform(platform)
    return found, budgets(found, gpus, split=_counts(split), model=model, where=str(file))


def _counts(split: str) -> tuple[int, ...]:
    if not split:
        return ()
    words = [word.strip() for word in split.split(",")]
    if not all(word.isdigit() and int(word) <= 64 for word in words) or not any(int(word) for word in words):
        raise UsageMistake(f"--split {split}: takes GPUs by slot, such as 10,0,10, each at most 64")
    return tuple(int(word) for word in words)


def as_json(platform: Platform, made: Sequence[Budget]) -> str:
    """The budgets as one JSON object; sizes in bytes."""
    answer = {
        "schema": 1,
        "platform": platform.name,
        "fits": all(budget.fits for budget in made),
        "budgets": [
            {
                "model": budget.model.name,
                "gpus": budget.gpus,
                "split": [share.gpus for share in budget.shares],
                "fits": budget.fits,
                "most": budget.most,
                "kernel_most": budget.kernel_most,
                "better": list(budget.better),
                "assumed": {str(index): int(size) for index, size in budget.model.assumed.items()},
                "first_starts": list(grow_within(budget).steps) if budget.gpus else [],
                "shares": [_share(share) for share in budget.shares],
                "spare": [_share(share) for share in budget.spare],
                "risks": [asdict(risk) for risk in risks(budget)],
            }
            for budget in made
        ],
        "settings": [asdict(knob) for knob in KNOBS],
    }
    return json.dumps(answer, indent=1)


def _share(share: Share) -> dict[str, object]:
    stack = share.stack
    return {
        "slot": stack.slot,
        "root": stack.root,
        "source": stack.source,
        "inferred": stack.inferred,
        "gpus": share.gpus,
        "slots": share.slots,
        "fits": share.fits,
        "lost_in_linux": share.lost,
        "most": share.most,
        "kernel_most": share.kernel_most,
        "io_most": share.io_most,
        "lines": [{**asdict(line), "resource": line.resource.value, "left": line.left} for line in share.lines],
    }


def as_text(platform: Platform, made: Sequence[Budget], width: int | None = None) -> Iterator[str]:
    """The budgets as a person reads them, in at most ``width`` columns (the terminal's)."""
    width = max(_NARROW, min(_BROAD, width or get_terminal_size((80, 24)).columns))
    yield from _wrapped(_headline(platform, made), "", width)
    yield ""
    for budget in made:
        yield from _wrapped(f"{budget.model.name}: {_verdict(budget)}", "  ", width)
    for budget in made:
        yield ""
        yield from _tables(budget, width)
        yield from _told(budget, width)
    yield ""
    yield "settings that change these figures"
    for knob in KNOBS:
        yield from _wrapped(f"{knob.attribute} ({knob.figure}): {knob.effect}", "  ", width)
    yield ""
    yield "where the windows are from"
    for source, stacks in _sources(platform).items():
        yield from _wrapped(f"{', '.join(stack.slot for stack in stacks)}: {source}", "  ", width)


def _headline(platform: Platform, made: Sequence[Budget]) -> str:
    good = [budget for budget in made if budget.fits]
    count = made[0].gpus
    if len(good) == len(made):
        risky = any(share.line(Resource.IO).left < 0 for budget in made for share in budget.shares)
        verdict = f"{_gpus(count)} fit as {made[0].split}{', but POST may refuse them for I/O ports' if risky else ''}"
    elif good:
        verdict = f"{_gpus(count)} fit only if they are {' or '.join(budget.model.name for budget in good)}"
    else:
        ways = [budget.way_out for budget in made if budget.way_out]
        most = f"as {ways[0]} they do" if ways else f"{max(budget.most for budget in made)} is the most"
        verdict = f"{_gpus(count)} do NOT fit as {made[0].split}; {most}"
    return f"BUDGET of {platform.name}, no machine was touched: {verdict}"


def _verdict(budget: Budget) -> str:
    limits = f"{_gpus(budget.most)} at most" if budget.most == budget.kernel_most else _limits(budget)
    if budget.fits:
        return f"fits as {budget.split}; {limits}"
    way_out = f" (as {budget.way_out} it fits)" if budget.way_out else ""
    lacking = [
        f"{line.resource.value} of {share.stack.slot} lacks {_amount(line, -line.left)}"
        for share in budget.shares
        if not share.fits
        for line in share.lines
        if line.left < 0 and line.resource is not Resource.IO
    ]
    spare = "".join(f", and {share.most} more in {share.stack.slot}" for share in budget.spare if share.most)
    return f"does NOT fit as {budget.split}{way_out}: {'; '.join(lacking)}; {limits}{spare}"


def _limits(budget: Budget) -> str:
    return f"{_gpus(budget.most)} at most, {budget.kernel_most} where Linux places them"


def _tables(budget: Budget, width: int) -> Iterator[str]:
    yield budget.model.name
    if budget.model.assumed:
        listed = ", ".join(f"BAR {index} {_size(int(size))}" for index, size in sorted(budget.model.assumed.items()))
        yield from _wrapped(f"assumed, since nobody has published it: {listed}", "  ", width)
    for share in budget.shares:
        yield f"  {share.stack.slot}, {share.stack.root}: {_gpus(share.gpus)}"[:width]
        yield f"    {'':15}{'need':>10}{'by Linux':>11}{'window':>10}{'left':>11}"
        for line in share.lines:
            yield _row(line)
        yield from _wrapped(
            f"{_gpus(share.most)} at most; {share.kernel_most} where Linux places them{_ports(share)}", "    ", width
        )
    for share in budget.spare:
        doubt = " (windows inferred)" if share.stack.inferred else ""
        yield from _wrapped(f"{share.stack.slot}, {share.stack.root}: free, holds {_gpus(share.most)}{doubt}", "  ", width)


def _ports(share: Share) -> str:
    more = share.gpus - share.slots
    return f"; {more} ports more than the platform has" if more > 0 else ""


def _row(line: Line) -> str:
    if not line.need and line.resource is Resource.IO:
        return f"    {line.resource.value:15}{'none':>10}{'none':>11}{_amount(line, line.window):>10}{_amount(line, line.left):>11}"
    mark = "" if line.left >= 0 else "  <- short"
    left = _amount(line, line.left) if line.left >= 0 else f"-{_amount(line, -line.left)}"
    return (
        f"    {line.resource.value:15}{_amount(line, line.need):>10}{_amount(line, line.kernel_need):>11}"
        f"{_amount(line, line.window):>10}{left:>11}{mark}"
    )


def _told(budget: Budget, width: int) -> Iterator[str]:
    found = risks(budget)
    for when, title in ((When.POST, "at POST"), (When.LINUX, "in Linux")):
        for risk in told(found, when):
            where = f"{risk.where}: " if risk.where else ""
            yield from _wrapped(f"{title}, {where}{risk.what}.", "  ", width)
            yield from _wrapped(f"-> {risk.do}", "     ", width)
    if budget.gpus:
        growth = grow_within(budget)
        steps = " ".join(map(str, growth.steps))
        yield from _wrapped(
            f"first starts on an unknown machine: {steps}{f'; {growth.stopped}' if growth.stopped else ''}", "  ", width
        )


def _sources(platform: Platform) -> dict[str, list[Stack]]:
    sources: dict[str, list[Stack]] = {}
    for stack in platform.stacks:
        sources.setdefault(stack.source, []).append(stack)
    return sources


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    further = f"{indent}  " if indent else "  "
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def _amount(line: Line, value: int) -> str:
    return str(value) if line.resource is Resource.BUSES else _size(value)


def _size(size: int) -> str:
    """Bytes in few digits: whole from MiB down, to three digits from GiB up."""
    if abs(size) >= _GIB:
        return f"{number(float(f'{size / _GIB:.3g}'))} GiB"
    (text,), unit = amount(size, unit="B")
    return f"{text} {unit}"
