"""Was the BMC there all the time?"""

from __future__ import annotations

import pytest

from harness.devices.idrac import Idrac
from harness.devices.idrac_facts import RESTARTED
from harness.errors import Blocked
from harness.limits import exactly
from harness.plugin.measuring import Measure
from harness.procedures.contact import Contact


@pytest.mark.check("bmc.continuity")
@pytest.mark.closing
def test_the_bmc_does_not_restart_during_the_run(contact: Contact, bmc: Idrac, measure: Measure) -> None:
    """A failure means that its watchdog or firmware restarted it; every answer around that time deserves a second look."""
    if contact.lc_baseline is None:
        raise Blocked("the BMC's log was never read, so nothing can be compared with it")
    restarts = [entry for entry in bmc.located().lc_log(contact.lc_baseline.number) if entry.message_id in RESTARTED]
    measure("bmc.restarts", len(restarts), limit=exactly(0), note=", ".join(str(entry) for entry in restarts))
    assert not restarts, f"the BMC restarted by itself: {', '.join(f'{entry} {entry.text}' for entry in restarts)}"
