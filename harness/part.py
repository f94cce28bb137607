"""Slots and parts: a place by chassis and slot, and the thing that sits in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """What a measurement is about.

    ``slot`` is the place (``jbogB/slot07``); the rest identifies the thing in it, as far as known.
    """

    slot: str
    model: str = ""
    serial: str = ""
    part_number: str = ""
    firmware: str = ""
    address: str = ""

    def __str__(self) -> str:
        return self.slot
