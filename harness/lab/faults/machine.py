"""Faults of the BMC, the BIOS job and the boot, and what looks like one and is none."""

from __future__ import annotations

from harness.lab.fault import Fault

FAULTS: tuple[Fault, ...] = ()
