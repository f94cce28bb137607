"""Faults of the PCIe tree."""

from __future__ import annotations

from harness.lab.fault import Fault

FAULTS: tuple[Fault, ...] = ()
