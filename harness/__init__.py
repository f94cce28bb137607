"""Bring-up and firmware validation of multi-GPU servers: a pytest plugin, its suites and a virtual lab."""

__version__ = "0.1.0"
