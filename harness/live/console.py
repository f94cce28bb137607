"""The console that a bench names, by URL or by command; nothing is opened before its first use."""

from __future__ import annotations

from harness.bench import Console
from harness.clock import Clock
from harness.live.serial import SerialStream
from harness.live.terminal import CommandStream
from harness.ports import Streams


def open_console(console: Console, clock: Clock) -> Streams:
    """The console's stream. Raises nothing: what cannot be opened says so at the first read or write."""
    if console.command:
        return CommandStream(console.command, clock)
    return SerialStream(console.url, clock, baud=console.baud)
