"""What a machine shows at the moment of the first failure of a stage, before anybody restarts it: read, never judged.

    kernel-log.txt     all of it, with a mark where the stage pcie had read to
    pcie-errors.txt    error registers, the kernel's counts and links of all functions that have something to tell
    nvml.jsonl         what the driver says of its GPUs
    lc-log.txt         what the iDRAC logged since the run began
    console.txt        what the console said since it was listened to last

A piece that cannot be had says why in its place. A host that does not answer once is not asked again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from harness.devices.console import Console
from harness.devices.host import Host
from harness.devices.idrac import Idrac
from harness.devices.pcie import Function, Snapshot, read_snapshot
from harness.errors import BenchError, DeviceError, TapeError

MARK = "---- up to here it had been read by the stage pcie ----"


def take_from_host(host: Host, seen: Sequence[str]) -> dict[str, str]:
    """The pieces that the operating system has; ``seen`` are the lines of the kernel log that were read before."""
    found: dict[str, str] = {}
    pieces: tuple[tuple[str, Callable[[], str]], ...] = (
        ("kernel-log.txt", lambda: "\n".join(_marked(host.kernel_log(), seen))),
        ("pcie-errors.txt", lambda: "\n".join(_errors(read_snapshot(host)))),
        ("nvml.jsonl", lambda: "\n".join(json.dumps(line) for line in host.agent("nvml", "--watch", "0", timeout=120.0))),
    )
    lost = ""
    for name, take in pieces:
        if lost:
            found[name] = f"not asked: {lost}\n"
            continue
        try:
            found[name] = take() + "\n"
        except BenchError as error:
            lost = f"the host did not answer before: {error}"
            found[name] = f"could not be kept: {error}\n"
        except (DeviceError, TapeError) as error:
            found[name] = f"could not be kept: {error}\n"
    return found


def take_from_bmc(idrac: Idrac, since: int) -> dict[str, str]:
    """What the BMC logged after the entry with the number ``since``."""
    try:
        text = "\n".join(f"{entry} {entry.severity} {entry.text}" for entry in idrac.lc_log(since)) or "nothing since the run began"
    except (BenchError, DeviceError, TapeError) as error:
        text = f"could not be kept: {error}"
    return {"lc-log.txt": f"{text}\n"}


def take_from_console(console: Console) -> dict[str, str]:
    """What has come on the console by now and nobody has read."""
    try:
        text = console.drain().text or "nothing since it was listened to last"
    except (BenchError, DeviceError, TapeError) as error:
        text = f"could not be kept: {error}"
    return {"console.txt": f"{text.rstrip()}\n"}


def _marked(log: Sequence[str], seen: Sequence[str]) -> Iterator[str]:
    """The log with the mark after what was read before; none where the log does not go on from there."""
    goes_on = bool(seen) and tuple(log[: len(seen)]) == tuple(seen)
    for number, line in enumerate(log):
        if goes_on and number == len(seen):
            yield MARK
        yield line
    if goes_on and len(log) == len(seen):
        yield MARK


def _errors(snapshot: Snapshot) -> Iterator[str]:
    """One line a function with error bits, counts or a link below what both ends can do; then how many have none."""
    quiet = 0
    for function in snapshot.functions:
        if told := " ".join(_of(function)):
            yield f"{function} {function.path}: {told}"
        else:
            quiet += 1
    yield f"{quiet} functions without errors, at their full link"


def _of(function: Function) -> Iterator[str]:
    if function.is_gone:
        yield "does not answer (all ones)"
        return
    config, link = function.config, function.link
    if config is not None and config.express is not None and config.express.status & 0xF:
        yield f"DevSta {config.express.status:#06x}"
    if config is not None and config.aer is not None:
        for name, value in (("CESta", config.aer.correctable), ("UESta", config.aer.uncorrectable)):
            if value:
                yield f"{name} {value:#010x}"
    for severity, counts in (function.aer or {}).items():
        if counted := {name: count for name, count in counts.items() if count}:
            yield f"{severity} {', '.join(f'{name} {count}' for name, count in counted.items())}"
    if (link.current_width, link.current_speed) != (link.max_width, link.max_speed) and link.current_width:
        yield f"link x{link.current_width} {link.current_speed} GT/s of x{link.max_width} {link.max_speed} GT/s"
