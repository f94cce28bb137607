"""Does the machine restart, get through POST and come back?

new-boot ──▶ post-halt ──▶ loop ──▶ post-progress ──▶ host-reach
"""

from __future__ import annotations

import pytest

from harness.errors import Blocked, NotApplicable
from harness.limits import at_most
from harness.platform import Platform
from harness.plugin.measuring import Measure
from harness.procedures.boot import BootStory
from harness.procedures.boot.story import HALT, LOOP, NEW_BOOT, PROGRESS, REACH


@pytest.mark.check("boot.new-boot")
@pytest.mark.vital
def test_a_reset_really_restarts_the_machine(boot: BootStory, measure: Measure) -> None:
    """A failure means that the BMC took the reset and nothing happened. Power that says On before and after proves nothing."""
    if boot.refusal:
        raise Blocked(f"BLOCKED: not restarted, because {boot.refusal}")
    _needs_a_reset(boot)
    boot.reached(NEW_BOOT)
    measure("boot.restart-seen", boot.since_reset(boot.began_at), unit="s")
    if boot.boot_id and boot.previous_boot_id:
        assert boot.boot_id != boot.previous_boot_id, f"the kernel still has the boot id {boot.boot_id} of before the reset"


@pytest.mark.check("boot.post-halt")
@pytest.mark.vital
def test_post_does_not_stop_at_a_prompt(boot: BootStory, measure: Measure) -> None:
    """A failure means that POST waits for F1 or F2, for ever; the reason is in the Lifecycle log and on the screen."""
    boot.reached(HALT)
    if boot.last is not None:
        measure("boot.server-status", boot.last.server)


@pytest.mark.check("boot.loop")
@pytest.mark.vital
def test_the_machine_does_not_restart_for_ever(boot: BootStory, platform: Platform, measure: Measure) -> None:
    """A failure with UEFI0256 means that GPUs used up the legacy I/O space, so that each POST ends in a restart."""
    boot.reached(LOOP)
    _needs_a_reset(boot)
    measure("boot.extra-restarts", boot.restarts, limit=at_most(platform.boot.extra_resets))


@pytest.mark.check("boot.post-progress")
@pytest.mark.vital
def test_post_goes_on_and_ends_in_time(boot: BootStory, platform: Platform, measure: Measure) -> None:
    """A failure means that POST stands still, mostly in PCI resource configuration: windows or buses do not suffice."""
    _needs_a_reset(boot)
    for stage, seconds in boot.stages:
        measure(f"boot.stage.{stage}", seconds, unit="s")
    boot.reached(PROGRESS)
    measure("boot.post", boot.since_reset(boot.through_at), limit=at_most(platform.boot.within, "s"))


@pytest.mark.check("boot.host-reach")
@pytest.mark.vital
def test_the_operating_system_can_be_reached(boot: BootStory, platform: Platform, measure: Measure) -> None:
    """A failure means that no system came up, or that the way to it is cut: new buses rename network cards. See the console."""
    if not boot.has_host:
        raise NotApplicable("the bench has no [host]")
    boot.reached(REACH)
    measure("boot.boot-id", boot.boot_id)
    measure("boot.bmc-losses", len(boot.losses), note="; ".join(str(loss) for loss in boot.losses))
    if boot.reset is not None:
        measure("boot.host-back", boot.since_reset(boot.reached_at), limit=at_most(platform.boot.within, "s"))


def _needs_a_reset(boot: BootStory) -> None:
    if boot.reset is None:
        raise NotApplicable("nothing is restarted without --apply" if not boot.is_consented else "nothing was restarted")
