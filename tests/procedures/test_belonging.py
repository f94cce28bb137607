"""Whose tree it is: proven by the serial number or by a boot id that changed with our reset, never assumed."""

import pytest

from harness.devices.pcie import HostFacts
from harness.procedures.belonging import judge_belonging
from harness.procedures.boot import BootStory
from harness.procedures.power import ResetSent

RESET = ResetSent("ForceRestart", 10.0)
RESTARTED = BootStory(is_consented=True, reset=RESET, previous_boot_id="before", boot_id="after")


def host(serial="", boot_id="after"):
    return HostFacts(machine="PowerEdge R640", serial=serial, boot_id=boot_id)


def test_the_serial_number_of_the_pinned_machine_is_proof():
    finding = judge_belonging(host("ABC1234"), None, "ABC1234")
    assert (finding.bench, finding.explanation, finding.unmeasured) == ("", "", "")


def test_another_machine_behind_the_same_name_is_the_bench_s_fault_whatever_its_boot_id_says():
    finding = judge_belonging(host("ABC9999"), RESTARTED, "ABC1234")
    assert "PowerEdge R640 ABC9999" in finding.bench
    assert "ABC1234" in finding.bench


def test_a_boot_id_that_changed_with_our_reset_is_proof_too():
    assert judge_belonging(host(), RESTARTED, "ABC1234").unmeasured == ""


def test_a_machine_that_restarted_since_it_came_up_is_the_product_s_fault():
    assert "restarted by itself" in judge_belonging(host("ABC1234", "later"), RESTARTED, "ABC1234").explanation


@pytest.mark.parametrize(
    "boot",
    [
        None,
        BootStory(is_consented=False, boot_id="after"),
        BootStory(is_consented=True, reset=RESET, previous_boot_id="", boot_id="after"),
        BootStory(is_consented=True, reset=RESET, previous_boot_id="after", boot_id="after"),
    ],
)
def test_without_a_proof_it_is_not_measured(boot):
    assert "nothing proves" in judge_belonging(host(), boot, "ABC1234").unmeasured
