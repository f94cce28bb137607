"""Is it the right machine, and does it let us in?"""

from __future__ import annotations

import pytest

from harness.errors import BenchError, Blocked
from harness.platform import Platform
from harness.plugin.measuring import Measure
from harness.procedures.contact import AUTH, IDENTITY, TLS, Contact


@pytest.mark.check("bmc.tls")
@pytest.mark.vital
def test_the_bmc_answers_with_the_certificate_that_the_bench_trusts(contact: Contact, measure: Measure) -> None:
    """A failure means a wrong address or cable, or a BMC that made itself a new certificate after a reset to defaults."""
    if contact.error is not None and contact.check == TLS:
        raise contact.error
    if contact.root is not None:
        measure("bmc.redfish-version", contact.root.redfish_version)


@pytest.mark.check("bmc.auth")
@pytest.mark.vital
def test_the_bmc_accepts_the_credentials_of_the_bench(contact: Contact, measure: Measure) -> None:
    """A failure means another password, a locked account, or all sessions taken. One attempt was made, three would block us."""
    if contact.error is not None and contact.check == AUTH:
        raise contact.error
    if contact.manager is not None:
        measure("bmc.firmware", contact.manager.firmware_version)


@pytest.mark.check("bmc.identity")
@pytest.mark.vital
def test_the_machine_is_the_one_that_the_bench_pins(contact: Contact, platform: Platform, measure: Measure) -> None:
    """A failure means a re-cabled switch or a reused address; nothing was written to that machine."""
    if contact.error is not None and contact.check == IDENTITY:
        raise contact.error
    if contact.system is None:
        raise Blocked("the machine was never reached")
    measure("bmc.system", contact.system.model)
    measure("bmc.bios", contact.system.bios_version)
    if contact.system.pcie_devices:
        measure("bmc.pcie-devices", len(contact.system.pcie_devices))
    if contact.system.service_tag != contact.expected_tag:
        raise BenchError(
            f"service tag {contact.system.service_tag or 'missing'} answers, the bench pins {contact.expected_tag or 'none'}; "
            "nothing was written: correct the BMC's address or the bench's service_tag"
        )
    if platform.system and contact.system.model != platform.system:
        raise BenchError(f"the machine is a {contact.system.model}, platform {platform.name} is for a {platform.system}")
