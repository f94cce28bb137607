"""What may cost the console, the data or the machine needs to be named by whoever types the command; no file agrees to it."""

from __future__ import annotations

import re

import pytest

from harness import locator
from harness.procedures.bios.danger import NAMES

MODEL = "model-lqd8360"
CHANGES = {
    "console": ("SerialComm", "Off"),
    "console, another port": ("ExtSerialConnector", "Serial2"),
    "console, another rate": ("FailSafeBaud", "9600"),
    "boot-mode": ("BootMode", "Bios"),
    "secure-boot": ("SecureBoot", "Enabled"),
    "secure-boot, its policy": ("SecureBootPolicy", "Custom"),
    "storage-mode": ("EmbSata", "RaidMode"),
    "storage-mode, NVMe": ("NvmeMode", "Raid"),
    "slot": ("Slot1", "Disabled"),
    "slot, its driver": ("Slot3", "BootDriverDisabled"),
    "slot, bifurcated": ("DellAutoDiscovery", "ManualControl"),
    "memory": ("MemoryMappedIOH", "512GB"),
    "uefi-variables": ("UefiVariableAccess", "Controlled"),
    "in-band-management": ("InBandManageabilityInterface", "Disabled"),
    "ac-recovery": ("AcPwrRcvry", "Off"),
}
"""A setting of each class that the modelled BIOS has; what comes after a comma only tells cases of a class apart."""

ELSEWHERE = {
    "mmio": "MmioAbove4Gb has to be on before it can be set off",
    "password": "no file may hold one",
    "tpm": "this BIOS has none",
    "power-cycle": "a request: it reads None again whatever came of it",
}


def class_of(case):
    return case.partition(",")[0]


def naming(classes):
    return [word for name in sorted(classes) for word in ("--danger", name)]


def a_file(folder, attribute, value):
    (folder / "set.toml").write_text(f'{attribute} = "{value}"\n')
    return ("--attributes", "set.toml")


def test_every_class_is_attacked_here():
    assert {class_of(case) for case in CHANGES} | set(ELSEWHERE) == set(NAMES)


@pytest.mark.parametrize("case", CHANGES)
def test_a_dangerous_change_is_refused_though_every_other_class_is_named(bringup, wire, tmp_path, case):
    others = naming(set(NAMES) - {class_of(case)})
    done = bringup("bios", "apply", "--bench", MODEL, *a_file(tmp_path, *CHANGES[case]), *others)
    assert done.status == 1, done.text
    assert f"--danger {class_of(case)}" in done.text
    assert wire.writes == []
    assert done.handovers == ["nothing was left on the machine"]


@pytest.mark.parametrize("case", CHANGES)
def test_the_same_change_is_made_once_its_class_is_named(bringup, wire, tmp_path, case):
    """It was the class that stood against it, and nothing else."""
    done = bringup("bios", "apply", "--bench", MODEL, *a_file(tmp_path, *CHANGES[case]), *naming({class_of(case)}))
    assert done.status == 0, done.text
    assert wire.machine.controller.bios.current[CHANGES[case][0]] == CHANGES[case][1]


def test_a_power_cycle_of_the_whole_machine_is_not_asked_for_unnamed(bringup, wire, tmp_path):
    request = a_file(tmp_path, "PowerCycleRequest", "FullPowerCycle")
    done = bringup("bios", "apply", "--bench", MODEL, *request, *naming(set(NAMES) - {"power-cycle"}))
    assert (done.status, wire.writes) == (1, [])
    assert "--danger power-cycle" in done.text
    done = bringup("bios", "apply", "--bench", MODEL, *request, *naming({"power-cycle"}))
    assert done.status == 0, done.text
    assert '"PowerCycleRequest": "FullPowerCycle"' in wire.writes[0].body


def test_windows_above_4_gib_are_not_switched_off_unnamed(bringup, wire, tmp_path):
    def switched_on(sent, machine):
        machine.controller.bios.current["MmioAbove4Gb"] = "Enabled"

    wire.before = switched_on
    done = bringup("bios", "apply", "--bench", MODEL, *a_file(tmp_path, "MmioAbove4Gb", "Disabled"))
    assert done.status == 1, done.text
    assert "--danger mmio" in done.text
    assert wire.writes == []


@pytest.mark.parametrize("attribute", ["SetupPassword", "SysPassword", "TpmSecurity", "Tpm2Algorithm", "IntelTxt"])
def test_passwords_and_tpm_are_not_set_unnamed(bringup, wire, tmp_path, attribute):
    done = bringup("bios", "apply", "--bench", MODEL, *a_file(tmp_path, attribute, "Off"))
    assert done.status != 0
    assert attribute in done.text
    assert wire.writes == []


def test_a_change_that_a_bios_would_make_beside_ours_needs_no_less(bringup, wire, tmp_path):
    """One harmless setting in the same file does not carry a dangerous one through."""
    (tmp_path / "both.toml").write_text('NumLock = "Off"\nSecureBoot = "Enabled"\n')
    done = bringup("bios", "apply", "--bench", MODEL, "--attributes", "both.toml")
    assert done.status == 1, done.text
    assert wire.writes == []


# ── no platform agrees ────────────────────────────────────────────────────────────────────────────────────────────


def a_platform_that_wants(folder, attribute, value):
    """The shipped platform and the modelled bench under other names, with one dangerous setting as the only wish."""
    platform = locator.find_platform("lqd8360")[1].read_text()
    bench = locator.find_bench(MODEL)[1].read_text()
    platform = re.sub(r"\[bios\.attributes\]\n(.+\n)+", f'[bios.attributes]\n{attribute} = "{value}"\n', platform)
    for kind, text in (("platforms", platform), ("benches", bench)):
        (folder / "fixtures" / kind).mkdir(parents=True)
        named = text.replace(f'"{MODEL}"', '"wanting"').replace('"lqd8360"', '"wanting"')
        (folder / "fixtures" / kind / "wanting.toml").write_text(named)


@pytest.mark.parametrize("case", CHANGES)
def test_a_platform_that_wants_it_is_no_consent(bringup, wire, tmp_path, case):
    a_platform_that_wants(tmp_path, *CHANGES[case])
    done = bringup("bios", "apply", "--bench", "wanting")
    assert done.status == 1, done.text
    assert f"--danger {class_of(case)}" in done.text
    assert wire.writes == []


def test_a_run_with_consent_to_changes_has_none_to_dangerous_ones(run_on_the_model, wire, cases, tmp_path):
    a_platform_that_wants(tmp_path, "BootMode", "Bios")
    done = run_on_the_model("--apply", "--stage", "bmc", "--stage", "bios", bench="wanting")
    assert done.status == 1, done.text
    assert "--danger boot-mode" in cases()["bios.attributes"]["message"]
    assert wire.sent
    assert wire.writes == []


@pytest.mark.slow
def test_a_check_of_ones_own_does_not_get_past_the_classes_either(run_on_the_model, wire, cases, tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import pytest\n"
        '@pytest.mark.check("bios.own")\n'
        "def test_boot_mode(bmc):\n"
        '    bmc.located().stage_bios({"BootMode": "Bios"})\n'
    )
    done = run_on_the_model("--apply", "--stage", "bmc", "--stage", "bios", "--suite", "test_own.py")
    assert done.status != 0
    assert "--danger boot-mode" in cases()["bios.own"]["message"]
    assert not [sent for sent in wire.writes if "BootMode" in sent.body]
