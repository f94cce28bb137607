import pytest

from harness.devices.gpu import Ecc, Gpu, Inventory, Peering, PeerStatus, Replays
from harness.limits import Outcome
from harness.platform import load_platform
from harness.procedures.gpu import (
    ecc_mode,
    fellows_of,
    judge_alike,
    judge_binding,
    judge_counted,
    judge_ecc,
    judge_memory,
    judge_replays,
    peerings,
)

MIB = 1 << 20
PLATFORM = load_platform(
    """
    schema = 1
    name = "three"
    [gpu]
    [[model]]
    name = "Quadro RTX 8000 (active)"
    device = "10de:1e30"
    memory = { ecc_off = "48601 MiB", ecc_on = "45556 MiB", within = "1 %" }
    [[model]]
    name = "Quadro RTX 8000 (passive)"
    device = "10de:1e78"
    subsystem = "10de:13d8"
    memory = { ecc_off = "48601 MiB", ecc_on = "45556 MiB", within = "1 %" }
    [[model]]
    name = "no memory said"
    device = "10de:1db6"
    [[slot]]
    name = "a"
    path = "pci0000:3a/00.0"
    [[slot]]
    name = "b"
    path = "pci0000:3a/01.0"
    [[slot]]
    name = "c"
    path = "pci0000:3a/02.0"
    [[slot]]
    name = "old"
    path = "pci0000:3a/03.0"
    model = "no memory said"
    """,
    "three.toml",
)
LIMITS = PLATFORM.gpu
HEALTHY = Ecc(True, True, 0, 0, 0, 0, False)


def a_gpu(index=0, *, memory=45556 * MIB, ecc=HEALTHY, **fields):
    defaults = {"address": f"0000:4{index}:00.0", "uuid": f"GPU-{index}", "device": "10de:1e78", "subsystem": "10de:13d8"}
    defaults |= {"name": "Quadro RTX 8000", "vbios": "90.02.30"}
    return Gpu(index, memory=memory, ecc=ecc, **(defaults | fields))


def outcomes(finding):
    return {taken.name: taken.outcome for taken in finding.measurements}


@pytest.mark.parametrize(
    ("driver", "kernel", "said"),
    [
        ("nouveau", (), "nouveau holds it: blacklist nouveau"),
        ("vfio-pci", (), "for a virtual machine"),
        ("uio_pci_generic", (), "uio_pci_generic holds it"),
        ("", ("Lockdown: modprobe: unsigned module loading is restricted",), "Secure Boot"),
        ("", ("nvidia: module verification failed: signature and/or required key missing",), "enrol the key"),
        ("", (), "is the nvidia module installed for this kernel, and loaded?"),
    ],
)
def test_a_gpu_that_another_driver_holds_is_named_with_what_to_do(driver, kernel, said):
    finding = judge_binding("a", "0000:40:00.0", driver, Inventory(kernel=kernel))
    assert outcomes(finding) == {"gpu.driver-bound": Outcome.FAIL}
    assert "a at 0000:40:00.0" in finding.explanation
    assert said in finding.explanation


def test_only_lines_about_the_gpu_itself_are_evidence():
    other = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:e5:00.0)"
    finding = judge_binding("a", "0000:3f:00.0", "", Inventory(kernel=(other,)))
    assert "e5:00.0" not in finding.explanation
    assert "no line of the kernel log is about it" in finding.explanation
    own = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:3f:00.0)"
    assert f"kernel: {own}" in judge_binding("a", "0000:3f:00.0", "", Inventory(kernel=(own, other))).explanation


def test_a_gpu_that_nvidia_holds_is_all_right():
    finding = judge_binding("a", "0000:40:00.0", "nvidia", Inventory())
    assert outcomes(finding) == {"gpu.driver-bound": Outcome.PASS}
    assert finding.explanation == ""


def test_a_gpu_that_nvml_does_not_list_is_named_and_the_kernel_is_quoted():
    line = "NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x56:894)"
    inventory = Inventory(gpus=(a_gpu(0),), count=2, kernel=("NVRM: GPU 0000:40:00.0: fine", line))
    finding = judge_counted("b", "0000:41:00.0", None, inventory)
    assert outcomes(finding) == {"gpu.nvml-count": Outcome.FAIL}
    assert "b at 0000:41:00.0 is bound to the driver, but is not among the 1 GPUs" in finding.explanation
    assert f"kernel: {line}" in finding.explanation
    assert "fine" not in finding.explanation


def test_a_gpu_that_nvml_cannot_open_is_named_with_nvmls_reason():
    lost = Gpu(1, address="0000:41:00.0", error="GPU is lost")
    finding = judge_counted("b", "0000:41:00.0", lost, Inventory(gpus=(lost,), kernel_error="dmesg: not permitted"))
    assert "cannot open it (GPU is lost)" in finding.explanation
    assert "the kernel log could not be read: dmesg: not permitted" in finding.explanation


@pytest.mark.parametrize(
    ("ecc", "mib", "outcome"),
    [(True, 45556, Outcome.PASS), (False, 48601, Outcome.PASS), (False, 45556, Outcome.FAIL), (True, 48601, Outcome.FAIL),
     (None, 48601, Outcome.PASS), (True, 24220, Outcome.FAIL)],
)  # fmt: skip
def test_memory_is_judged_by_the_state_of_ecc(ecc, mib, outcome):
    gpu = a_gpu(memory=mib * MIB, ecc=Ecc(ecc, ecc))
    finding = judge_memory(PLATFORM.slot("a"), gpu, {"a": gpu}, PLATFORM)
    assert outcomes(finding)["gpu.memory"] is outcome


def test_memory_that_differs_from_the_fellows_within_the_limit_is_still_odd():
    gpus = {name: a_gpu(number) for number, name in enumerate("ab")} | {"c": a_gpu(2, memory=45400 * MIB)}
    finding = judge_memory(PLATFORM.slot("c"), gpus["c"], gpus, PLATFORM)
    assert outcomes(finding) == {"gpu.memory": Outcome.PASS, "gpu.memory.alike": Outcome.FAIL}
    assert finding.explanation == "c: 45400 MiB with ECC on; 2 of 3 GPUs with ECC on have 45556 MiB"


def test_memory_of_a_gpu_with_another_ecc_mode_is_not_compared_with_the_fellows():
    gpus = {"a": a_gpu(0), "b": a_gpu(1), "c": a_gpu(2, memory=48601 * MIB, ecc=Ecc(False, False))}
    assert judge_memory(PLATFORM.slot("c"), gpus["c"], gpus, PLATFORM).explanation == ""


def test_memory_that_was_not_read_or_has_no_figure_is_not_measured():
    gpu = a_gpu(memory=None, unread={"memory": "Unknown Error"})
    (measured,) = judge_memory(PLATFORM.slot("a"), gpu, {"a": gpu}, PLATFORM).measurements
    assert (measured.outcome, measured.note) == (Outcome.NOT_MEASURED, "Unknown Error")
    assert "no memory size" in judge_memory(PLATFORM.slot("old"), gpu, {}, PLATFORM).unmeasured


def test_uncorrected_errors_and_pending_pages_fail_and_say_what_happened():
    finding = judge_ecc("a", a_gpu(ecc=Ecc(True, True, 7, 1, 3, 2, True), serial="123"), LIMITS)
    assert outcomes(finding) == {"gpu.uncorrected-ecc": Outcome.FAIL, "gpu.pending-retirement": Outcome.FAIL}
    assert "serial 123" in finding.explanation
    assert "1 uncorrected, 7 corrected; retired pages: 3 for single-bit, 2 for double-bit" in finding.explanation
    assert "a page waits for its retirement" in finding.explanation


def test_corrected_errors_and_pages_retired_long_ago_are_no_fault():
    finding = judge_ecc("a", a_gpu(ecc=Ecc(True, True, 7, 0, 3, 2, False)), LIMITS)
    assert set(outcomes(finding).values()) == {Outcome.PASS}


def test_a_counter_that_was_not_read_is_not_measured_and_never_zero():
    gpu = a_gpu(ecc=Ecc(True, True), unread={"uncorrected": "Unknown Error", "retirement_pending": "Unknown Error"})
    finding = judge_ecc("a", gpu, LIMITS)
    assert set(outcomes(finding).values()) == {Outcome.NOT_MEASURED}
    assert {taken.note for taken in finding.measurements} == {"Unknown Error"}


def test_a_card_without_page_retirement_is_judged_by_its_uncorrected_errors():
    gpu = a_gpu(ecc=Ecc(True, True, 0, 0), unread={"retirement_pending": "Not Supported"})
    assert outcomes(judge_ecc("a", gpu, LIMITS)) == {"gpu.uncorrected-ecc": Outcome.PASS}


@pytest.mark.parametrize(
    ("first", "later", "outcome"),
    [
        (150, 150, Outcome.PASS),
        (0, 4, Outcome.PASS),
        (0, 5, Outcome.FAIL),
        (9, 2, Outcome.NOT_MEASURED),
        (None, 3, Outcome.NOT_MEASURED),
    ],
)
def test_replays_are_judged_by_their_rate_and_not_their_total(first, later, outcome):
    finding = judge_replays("a", a_gpu(replays=Replays(first, later, 30.0)), LIMITS)
    assert outcomes(finding) == {"gpu.replay-rate": outcome}
    assert ("Reseat the card" in finding.explanation) == (outcome is Outcome.FAIL)


def test_the_odd_one_out_is_named_by_what_is_odd():
    gpus = {"a": a_gpu(0), "b": a_gpu(1, vbios="90.02.17", ecc=Ecc(False, False)), "c": a_gpu(2)}
    finding = judge_alike("b", gpus["b"], gpus)
    assert outcomes(finding)["gpu.vbios"] is Outcome.FAIL
    assert outcomes(finding)["gpu.name"] is Outcome.PASS
    assert finding.explanation == "b has VBIOS 90.02.17; 2 of 3 have 90.02.30\nb has ECC off; 2 of 3 have on"
    assert judge_alike("a", gpus["a"], gpus).explanation == ""


def test_a_vbios_that_was_not_read_is_not_measured():
    gpus = {"a": a_gpu(0), "b": a_gpu(1, vbios="", unread={"vbios": "Not Supported"})}
    finding = judge_alike("b", gpus["b"], gpus)
    assert outcomes(finding)["gpu.vbios"] is Outcome.NOT_MEASURED
    assert finding.explanation == ""


def test_mixed_models_are_compared_each_with_its_own_and_lost_gpus_with_nobody():
    gpus = {"a": a_gpu(0), "b": Gpu(1, error="GPU is lost"), "old": a_gpu(3)}
    assert set(fellows_of(PLATFORM.slot("a"), PLATFORM.slots, gpus)) == {"a"}
    assert set(fellows_of(PLATFORM.slot("old"), PLATFORM.slots, gpus)) == {"old"}


def test_an_ecc_mode_that_changes_at_the_next_boot_says_so():
    assert [ecc_mode(a_gpu(ecc=Ecc(*modes))) for modes in ((True, True), (False, None), (None, None), (True, False))] == [
        "on", "off", "not supported", "on (off after a reboot)",
    ]  # fmt: skip


def test_what_the_driver_says_of_pairs_is_found_by_slot_names():
    gpus = {"a": a_gpu(5), "b": a_gpu(7)}
    said = Peering(PeerStatus.OK, PeerStatus.DISABLED_BY_REGKEY)
    assert peerings(Inventory(peers={(5, 7): said, (5, 6): Peering()}), gpus) == {("a", "b"): said}
