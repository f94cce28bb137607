"""The pytest plugin: the only package that imports pytest.

It is inert, and registers no fixture, unless a bench is named; what it needs then is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--bringup-*`` options."""
    group = parser.getgroup("bringup", "bring-up of a machine (inert without --bringup-bench)")
    group.addoption("--bringup-bench", metavar="NAME|FILE", help="the machine to run on")
    group.addoption("--bringup-live", action="store_true", help="touch the machine itself")
    group.addoption("--bringup-replay", action="store_true", help="replay the bench's tape; nothing is touched")
    group.addoption("--bringup-record", action="store_true", help="run live and replace the bench's tape if all passes")
    group.addoption("--bringup-apply", action="store_true", default=None, help="allow settings to be changed and reboots")
    group.addoption("--bringup-danger", action="append", default=[], metavar="CLASS", help="allow a danger class by name")
    group.addoption("--bringup-assume-free", action="store_true", help="go on where the host is up and cannot be asked who uses it")
    group.addoption(
        "--bringup-force-p2p", action="store_true", help="copy between GPUs under an IOMMU that translates: can overwrite memory"
    )
    group.addoption("--bringup-steal-lock", default="", metavar="OWNER", help="take the machine from its holder, by exact name")
    group.addoption("--bringup-stage", action="append", default=[], metavar="NAME", help="run only this stage (repeatable)")
    group.addoption("--bringup-fault", action="append", default=[], metavar="ID", help="switch on a fault of the virtual lab")
    group.addoption("--bringup-lab-driver", metavar="DIR", help="run a modelled machine's GPU workers on these driver libraries")
    group.addoption("--bringup-waivers", metavar="FILE", help="what somebody answers for until a date")
    group.addoption("--bringup-verify", action="store_true", help="with --bringup-live: compare the machine in shape with its tape")
    group.addoption("--bringup-strict-tapes", action="store_true", help="refuse a tape that is old or of firmware not wanted")
    group.addoption("--bringup-tapes", metavar="DIR", help="where tapes are read and written")
    group.addoption("--bringup-report", metavar="DIR", default="reports", help="where reports are written (default: reports)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the run, and only if a bench is named."""
    if config.getoption("bringup_bench"):
        from harness.plugin.wiring import register_run

        register_run(config)
    elif _names_a_run(config):
        import pytest

        raise pytest.UsageError("--bringup-* options need --bringup-bench NAME")


def _names_a_run(config: pytest.Config) -> bool:
    names = (
        "live",
        "replay",
        "record",
        "apply",
        "danger",
        "assume_free",
        "force_p2p",
        "steal_lock",
        "stage",
        "fault",
        "tapes",
        "lab_driver",
        "waivers",
        "strict_tapes",
        "verify",
    )
    return any(config.getoption(f"bringup_{name}") for name in names)
