"""Bring the machine up: restart it once with consent, watch POST and console, reach the operating system."""

from harness.procedures.boot.bring import bring_up
from harness.procedures.boot.story import BootStory

__all__ = ["BootStory", "bring_up"]
