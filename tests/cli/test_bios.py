"""``bringup bios`` on the modelled machine: what it says, what it touches, with which status it ends."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import bios
from harness.cli.attributes import read_attributes, read_unit
from harness.cli.streams import Lines
from harness.errors import ConfigError, OwnershipError, Unreachable, UsageMistake
from harness.lab.model.lanes import ModelBmc
from harness.lab.model.machine import Machine
from harness.limits import exactly
from harness.ports import Effect
from harness.procedures.bios.settings import Kind, Unit, compare
from harness.secret import holds_secret

MODEL = "model-lqd8360"
NOTHING_LEFT = "hand-over: nothing was left on the machine"


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path, monkeypatch):
    """What is written to ./reports stays out of everybody's way."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def asked(monkeypatch):
    """Every question that reaches the modelled BMC."""
    questions = []
    ask = ModelBmc.ask

    def noted(lane, question, on_line=None):
        questions.append(question)
        return ask(lane, question, on_line)

    monkeypatch.setattr(ModelBmc, "ask", noted)
    return questions


def writes(asked):
    return [question.key for question in asked if question.effect is Effect.ACT]


def apply(**more):
    return bios.apply(bios.Application(MODEL, **more), Lines())


def clear(names=(), attributes=None, faults=(), **more):
    return bios.clear(bios.Clearance(MODEL, names, attributes=attributes, faults=faults, **more))


def write(folder, name, text) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_show_tells_value_choices_and_what_locks_it():
    first, *rows = bios.show(MODEL, ("MmioAbove4Gb", "PcieAspmL1"), ()).lines
    assert "a MODELLED machine" in first
    assert "service tag MODEL01" in first
    assert rows == [
        "MmioAbove4Gb = Disabled  (Enabled | Disabled)",
        "PcieAspmL1 = Enabled  (read-only while SysProfile is not Custom)",
    ]


def test_show_tells_what_is_pending():
    lines = bios.show(MODEL, ("ProcX2Apic",), ("bios.preflight-pending",)).lines
    assert lines[1].startswith("ProcX2Apic = Disabled  pending: Enabled")


def test_show_of_a_name_of_another_generation_names_the_nearest():
    with pytest.raises(UsageMistake, match="no MmioAbove4GB; did you mean 'MmioAbove4Gb'"):
        bios.show(MODEL, ("MmioAbove4GB",), ())


def test_diff_tells_what_differs_in_its_status(tmp_path):
    page = bios.diff(MODEL, None, ())
    assert page.status == 1
    assert "MmioAbove4Gb: Disabled, wanted Enabled" in page.lines
    same = write(tmp_path, "same.toml", 'MmioAbove4Gb = "Disabled"\n')
    page = bios.diff(MODEL, same, ())
    assert (page.status, page.lines[-1]) == (0, "all 1 settings are as wanted")


def test_a_plan_tells_changes_restarts_risks_and_ways_back_and_writes_nothing(asked):
    page = bios.plan(MODEL, None, (), ())
    text = "\n".join(page.lines)
    assert page.status == 1
    for title in ("would change (2 of them):", "restarts:", "could go wrong:", "ways back:", "result: can be applied"):
        assert title in text
    assert writes(asked) == []


def test_a_plan_lists_dangers_dependencies_and_what_the_bios_changes_itself(tmp_path):
    file = write(tmp_path, "set.toml", 'SysProfile = "Custom"\nPcieAspmL1 = "Disabled"\nBootMode = "Bios"\n')
    text = "\n".join(bios.plan(MODEL, file, (), ()).lines)
    assert "PcieAspmL1 is read-only while SysProfile is not Custom: it goes with SysProfile in one request" in text
    assert "--danger boot-mode: BootMode Uefi -> Bios" in text
    assert "result: nothing would be written until every danger is named" in text
    file = write(tmp_path, "perf.toml", '[attributes]\nSysProfile = "PerfOptimized"\n')
    text = "\n".join(bios.plan(MODEL, file, (), ()).lines)
    assert "PcieAspmL1 -> Disabled, because SysProfile is PerfOptimized" in text


def test_a_plan_that_the_bios_forbids_says_why_and_tells_of_no_restart(tmp_path):
    file = write(tmp_path, "typed.toml", 'FailSafeBaud = 115200\nPcieAspmL1 = "Disabled"\n')
    lines = bios.plan(MODEL, file, (), ()).lines
    assert '  FailSafeBaud = 115200: it takes text, not 115200; write "115200"' in lines
    reason = "it is read-only as things stand, because SysProfile is not Custom"
    assert f"  cannot set PcieAspmL1, which is Enabled, to Disabled: {reason}" in lines
    assert "restarts:" not in lines
    assert lines[-1] == "result: nothing would be written, because a part of it cannot be"


def test_a_plan_of_a_machine_in_lockdown_says_that_nothing_can_change():
    lines = bios.plan(MODEL, None, (), ("bios.preflight-lockdown",)).lines
    assert lines[1].startswith("nothing can change: system lockdown mode is on")
    assert any("bios.preflight-lockdown" in line for line in lines[-1:])


def test_apply_ends_with_the_proof_and_the_hand_over(asked, capsys):
    page = apply()
    out = capsys.readouterr()
    assert page.status == 0
    assert page.lines[0] == "MmioAbove4Gb: Disabled -> Enabled"
    assert page.lines[-2:] == [
        "read back as wanted, no BIOS job is left, nothing is pending",
        "hand-over: nothing was left on the machine",
    ]
    assert any("new boot id" in line for line in page.lines)
    assert "BIOS apply, LIVE on bench model-lqd8360: a MODELLED machine" in out.out
    assert re.search(r"to complete: \d+:\d\d, last seen JID_\d+ BIOSConfiguration Running \(PR20, \d+ %\); ", out.err)
    assert "InPOST, MemoryInitializationStarted" in out.err
    assert [key.split()[0] for key in writes(asked)] == ["PATCH", "POST"]


def test_apply_keeps_the_settings_of_before_in_a_file_that_can_be_applied_again(capsys, tmp_path):
    apply()
    (kept,) = (tmp_path / "reports").iterdir()
    assert f"settings as they are now: reports/{kept.name}" in capsys.readouterr().out
    before = read_attributes(kept)
    assert before["MmioAbove4Gb"].bounds == ("Disabled",)
    assert "SetupPassword" not in kept.read_text()


def test_an_apply_that_cannot_keep_what_was_changes_nothing(asked, tmp_path):
    (tmp_path / "reports").write_text("in the way")
    with pytest.raises(UsageMistake, match="nothing was changed"):
        apply()
    assert writes(asked) == []


def test_apply_of_what_is_already_so_sends_no_write(asked, tmp_path):
    file = write(tmp_path, "same.toml", 'MmioAbove4Gb = "Disabled"\n')
    page = apply(attributes=file)
    assert (page.status, page.lines[0]) == (0, "all 1 settings are as wanted; no write was sent")
    assert writes(asked) == []


def test_apply_without_a_restart_leaves_the_job_and_says_how_to_undo_it(asked):
    page = apply(restarts=False)
    assert page.status == 0
    assert "Scheduled: applies at the next reboot by anyone; undo: DELETE" in page.lines[-1]
    assert [key.split()[0] for key in writes(asked)] == ["PATCH"]


@pytest.mark.parametrize(
    ("fault", "status", "check"),
    [
        ("bios.preflight-pending", 3, "bios.preflight-pending"),
        ("bios.job-state", 1, "bios.job-state"),
        ("bios.readback", 1, "bios.readback"),
        ("bios.attributes", 1, "bios.attributes"),
    ],
)
def test_apply_that_fails_tells_whose_fault_it_is_and_what_is_left(fault, status, check):
    page = apply(faults=(fault,))
    assert page.status == status
    assert page.lines[0] == f"not applied ({check}):"
    assert page.lines[-1].startswith("hand-over: ")


def test_apply_whose_first_start_logs_what_is_forbidden_says_so_and_fails():
    page = apply(faults=("bios.events",))
    assert page.status == 1
    assert "read back as wanted, no BIOS job is left, nothing is pending" in page.lines
    (told,) = [line for line in page.lines if "platform lqd8360 forbids: UEFI0080" in line]
    assert told.startswith("but the start with them logged")


def test_a_one_off_set_is_told_of_what_its_start_logs_but_not_held_to_it(tmp_path):
    """Delivered settings leave the machine short of memory for its devices before and after: not what the set is about."""
    page = apply(attributes=write(tmp_path, "own.toml", 'ProcX2Apic = "Enabled"\n'))
    assert page.status == 0
    assert any("warning: the start with them logged what platform lqd8360 forbids: UEFI0134" in line for line in page.lines)


def test_a_danger_has_to_be_named_and_a_wrong_name_is_a_mistake(asked, tmp_path):
    file = write(tmp_path, "boot.toml", 'BootMode = "Bios"\n')
    page = apply(attributes=file)
    assert page.status == 1
    assert "--danger boot-mode" in "\n".join(page.lines)
    assert writes(asked) == []
    with pytest.raises(UsageMistake, match="did you mean 'boot-mode'"):
        apply(attributes=file, danger=("bootmode",))


def test_clear_refuses_what_somebody_else_staged_until_it_is_named(asked):
    with pytest.raises(OwnershipError, match="somebody else staged ProcX2Apic"):
        clear((), None, ("bios.preflight-pending",))
    assert writes(asked) == []
    page = clear(("ProcX2Apic",), None, ("bios.preflight-pending",))
    assert page.lines[1:] == ["cleared ProcX2Apic (Enabled)", "nothing is pending", NOTHING_LEFT]
    assert len(writes(asked)) == 1


def test_clear_takes_what_is_wanted_here_without_a_name(tmp_path):
    file = write(tmp_path, "own.toml", 'ProcX2Apic = "Enabled"\n')
    assert clear((), file, ("bios.preflight-pending",)).lines[-2] == "nothing is pending"


def test_clear_with_nothing_pending_writes_nothing(asked):
    assert clear((), None, ()).lines[1:] == ["nothing is pending", NOTHING_LEFT]
    assert writes(asked) == []


def test_an_export_holds_settings_and_identity_and_no_secret(tmp_path):
    file = tmp_path / "a.json"
    bios.export(MODEL, file, (), force=False)
    document = json.loads(file.read_text())
    assert document["identity"]["service_tag"] == "MODEL01"
    assert document["identity"]["source"] == "model"
    assert document["attributes"]["MmioAbove4Gb"] == "Disabled"
    assert "SystemModelName" in document["read_only"]
    assert "PcieAspmL1" not in document["read_only"]
    assert not [name for name in document["attributes"] if holds_secret(name)]
    with pytest.raises(UsageMistake, match="exists; --force overwrites it"):
        bios.export(MODEL, file, (), force=False)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("SHA256SetupPassword", True),
        ("SHA256SetupPasswordSalt", True),
        ("SetupPassword", True),
        ("setuppassword", True),
        ("NewSysPasswd", True),
        ("PasswordStatus", False),
    ],
)
def test_hashes_and_passwords_are_secrets_and_the_password_status_is_none(name, secret):
    assert holds_secret(name) is secret


def test_an_export_is_a_set_to_apply_without_what_nobody_sets(tmp_path):
    file = tmp_path / "a.json"
    bios.export(MODEL, file, (), force=False)
    wanted = read_attributes(file)
    assert wanted["MmioAbove4Gb"] == exactly("Disabled")
    assert "SystemModelName" not in wanted
    assert bios.diff(MODEL, file, ()).status == 0


def test_two_machines_are_compared_by_settings_alone(tmp_path):
    file = tmp_path / "a.json"
    bios.export(MODEL, file, (), force=False)
    assert bios.compare_units((str(file), MODEL)).status == 0
    changed = json.loads(file.read_text())
    changed["name"] = "other"
    changed["attributes"] |= {"MmioAbove4Gb": "Enabled", "SysMemSize": "768 GB"}
    other = write(tmp_path, "b.json", json.dumps(changed))
    page = bios.compare_units((str(file), str(other)))
    assert page.status == 1
    assert "  MmioAbove4Gb: model-lqd8360 'Disabled', other 'Enabled'" in page.lines
    assert page.lines[-1] == "1 settings differ"


def units(**values):
    names = ("one", "two", "three")[: len(next(iter(values.values())))]
    return [
        Unit(name, {}, {key: listed[number] for key, listed in values.items()}, frozenset({"SystemServiceTag", "SysMemSize"}))
        for number, name in enumerate(names)
    ]


def test_of_three_machines_the_odd_one_is_named():
    (found,) = compare(units(ErrPrompt=("Enabled", "Disabled", "Enabled")))
    assert (found.kind, found.odd) == (Kind.SETTING, "two")
    assert str(found).endswith("; the odd one is two")


def test_identity_and_state_are_told_apart_from_settings():
    found = compare(
        units(
            SystemServiceTag=("A1", "B2", "C3"),
            SysMemSize=("384 GB", "384 GB", "768 GB"),
            AssetTag=("rack 1", "rack 2", "rack 3"),
            FailSafeBaud=("115200", "9600", "115200"),
        )
    )
    assert {each.name: each.kind for each in found} == {
        "SystemServiceTag": Kind.IDENTITY,
        "SysMemSize": Kind.STATE,
        "AssetTag": Kind.IDENTITY,
        "FailSafeBaud": Kind.SETTING,
    }


def test_text_and_number_of_the_same_digits_differ():
    assert [each.name for each in compare(units(Delay=(60, "60")))] == ["Delay"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "MmioAbove4Gb = ", "is not TOML"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[]", "takes a table"),
        ("a.toml", "", "takes settings such as"),
        ("a.toml", 'SetupPassword = "x"', "SetupPassword: a password never stands in the file"),
        ("a.toml", "Delay = { at_lest = 3 }", "did you mean 'at_least'"),
        ("a.json", '{"schema": "bringup-bios-1", "attributes": {"A": null}}', "plain values"),
    ],
)
def test_a_wrong_file_is_one_line_that_says_where(tmp_path, name, text, says):
    with pytest.raises(ConfigError, match=re.escape(says)) as raised:
        read_attributes(write(tmp_path, name, text))
    assert str(raised.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_export_cannot_be_compared(tmp_path):
    with pytest.raises(ConfigError, match="is no export"):
        read_unit(write(tmp_path, "a.json", "{}"))


def test_an_export_to_a_folder_that_is_not_there_names_the_folder_and_asks_nothing(asked, tmp_path):
    file = tmp_path / "gone" / "a.json"
    with pytest.raises(UsageMistake, match=re.escape(f"no folder {file.parent}; make it first")):
        bios.export(MODEL, file, (), force=False)
    assert (asked, list(tmp_path.iterdir())) == ([], [])


def test_the_commands_say_their_mistakes_in_one_line(shell):
    done = shell('"${bringup[@]}" bios plan --bench nowhere')
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    done = shell('"${bringup[@]}" bios apply --bench model-lqd8360 --on-conflict force')
    assert done.returncode == 2
    assert "--on-conflict takes" in done.stderr


def test_a_plan_from_the_command_line_has_its_status(shell):
    done = shell('"${bringup[@]}" bios plan --bench model-lqd8360')
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "result: can be applied"


def test_a_name_that_a_file_gives_wrong_is_a_mistake_of_that_file(asked, tmp_path):
    file = write(tmp_path, "typo.toml", 'MmioAbove4gb = "Enabled"\n')
    with pytest.raises(UsageMistake, match=r"typo\.toml: MmioAbove4gb: .*did you mean 'MmioAbove4Gb'\?; nothing was changed"):
        apply(attributes=file)
    assert writes(asked) == []


HOSTILE = "\x1b]0;owned\x07\u202eevil\u2069\x9b31m\r\nhand-over: nothing was left on the machine\u061c"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f]")


@pytest.fixture
def hostile(monkeypatch):
    """A BMC that puts escape sequences into every text a person may see."""
    ask = ModelBmc.ask

    def poisoned(lane, question, on_line=None):
        answer = ask(lane, question, on_line)
        body = answer.body
        if not isinstance(body, dict) or "/Registries/" in question.path:
            return answer
        for name in ("Model", "BiosVersion", "FirmwareVersion", "Message"):
            if isinstance(body.get(name), str):
                body = body | {name: body[name] + HOSTILE}
        attributes = body.get("Attributes")
        if question.path.endswith("/Bios"):
            body = body | {"Attributes": attributes | {"AssetTag": HOSTILE, f"Odd{HOSTILE}": "x"}}
        if question.path.endswith("/Bios/Settings") and question.method == "GET":
            body = body | {"Attributes": attributes | {"NumLock": HOSTILE, f"New{HOSTILE}": "x"}}
        return replace(answer, body=body)

    monkeypatch.setattr(ModelBmc, "ask", poisoned)


@pytest.mark.parametrize(
    "words",
    [
        "show",
        "show AssetTag NumLock",
        "diff",
        "plan",
        "apply",
        "apply --no-reboot",
        "apply --on-conflict wait",
        "clear",
        "export x.json",
    ],
)
def test_nothing_that_a_machine_says_reaches_the_terminal_raw(hostile, words, capsys, monkeypatch):
    from harness.cli import main

    verb, *rest = words.split()
    monkeypatch.setattr("sys.argv", ["bringup", "bios", verb, "--bench", MODEL, *rest])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert not RAW.findall(said.out + said.err)
    assert "\\x1b]0;owned" in said.out + said.err
    assert said.out.count("\nhand-over: ") <= 1
    assert "\n hand-over" not in said.out


def test_an_apply_that_leaves_a_second_boot_says_so_in_page_hand_over_and_status(tmp_path, monkeypatch):
    start = Machine.__init__

    def in_legacy_mode(machine, *given, **more):
        start(machine, *given, **more)
        machine.controller.bios.current["BootMode"] = "Bios"

    monkeypatch.setattr(Machine, "__init__", in_legacy_mode)
    file = write(tmp_path, "both.toml", 'BootMode = "Uefi"\nSecureBoot = "Enabled"\n')
    page = apply(attributes=file, danger=("boot-mode", "secure-boot"), restarts=False)
    rest = "SecureBoot Disabled -> Enabled: to be set after that boot, by the same command again (boot 2 of 2)"
    assert page.lines[0] == "BootMode: Bios -> Uefi, once the host restarts"
    assert page.lines[-2] == f"not yet: {rest}"
    assert page.lines[-1].endswith(f" | {rest}")
    assert page.status == 1


def test_a_stop_after_the_first_of_two_boots_tells_what_that_boot_set(tmp_path, monkeypatch):
    start, ask = Machine.__init__, ModelBmc.ask
    machines = []

    def in_legacy_mode(machine, *given, **more):
        start(machine, *given, **more)
        machine.controller.bios.current["BootMode"] = "Bios"
        machines.append(machine)

    def beside_a_colleague(lane, question, on_line=None):
        settings = machines[-1].controller.bios
        if "BiosAttributeRegistry" in question.path and settings.current["BootMode"] == "Uefi":
            settings.pending.setdefault("NumLock", "Off")
        return ask(lane, question, on_line)

    monkeypatch.setattr(Machine, "__init__", in_legacy_mode)
    monkeypatch.setattr(ModelBmc, "ask", beside_a_colleague)
    file = write(tmp_path, "both.toml", 'BootMode = "Uefi"\nSecureBoot = "Enabled"\n')
    page = apply(attributes=file, danger=("boot-mode", "secure-boot"))
    assert page.lines[:2] == ["BootMode: Bios -> Uefi, by boot 1", "not finished (bios.preflight-pending):"]
    assert "nothing was written" not in "\n".join(page.lines)
    assert page.status == 3


@pytest.mark.parametrize("target", [".", "/dev/null", "link.json"])
def test_an_export_over_what_is_no_plain_file_is_one_line_and_asks_nothing(asked, target, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "behind.json")
    with pytest.raises(UsageMistake, match="only a plain file is written over"):
        bios.export(MODEL, Path(target), (), force=True)
    assert asked == []
    assert not (tmp_path / "behind.json").exists()


@pytest.mark.parametrize("verb", ["diff", "plan", "apply", "clear"])
def test_a_file_of_settings_that_nobody_can_mean_asks_nothing_of_the_machine(asked, verb, capsys, monkeypatch, tmp_path):
    from harness.cli import main

    write(tmp_path, "deep.json", '{"A":' + "[" * 100_000 + "]" * 100_000 + "}")
    monkeypatch.setattr("sys.argv", ["bringup", "bios", verb, "--bench", MODEL, "--attributes", "deep.json"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 2
    assert capsys.readouterr().err == "bringup: deep.json: is nested deeper than 16 tables and lists\n"
    assert asked == []


def test_a_failed_clear_names_the_bench_and_the_settings_in_its_undo(capsys, monkeypatch):
    from harness.cli import main

    ask = ModelBmc.ask

    def cut(lane, question, on_line=None):
        if "ClearPending" in question.path:
            raise Unreachable("the connection was lost")
        return ask(lane, question, on_line)

    monkeypatch.setattr(ModelBmc, "ask", cut)
    words = ["bringup", "bios", "clear", "--bench", MODEL, "--fault", "bios.preflight-pending", "ProcX2Apic"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 3
    assert f"undo: bringup bios clear --bench {MODEL} ProcX2Apic" in capsys.readouterr().err


def test_a_plan_and_an_apply_warn_of_inventory_that_is_not_collected():
    fault = ("benign.csior-off",)
    plan = bios.plan(MODEL, None, (), fault).lines
    assert any("CSIOR" in line for line in plan[plan.index("could go wrong:") :])
    assert plan[-1] == "result: can be applied"
    page = apply(faults=fault)
    assert page.status == 0
    assert [line.startswith("warning: ") for line in page.lines if "CSIOR" in line] == [True]


def test_a_machine_whose_lifecycle_controller_is_off_plans_why_nothing_would_be_written():
    plan = bios.plan(MODEL, None, (), ("bios.preflight-lc.disabled",)).lines
    assert any("the Lifecycle Controller is set to Disabled, so no job can be made (BIOS010)" in line for line in plan)
    assert plan[-1] == "result: nothing would be written as the machine stands (bios.preflight-lc)"


def test_a_user_who_may_only_look_is_told_by_the_plan_and_the_apply(asked):
    fault = ("bios.preflight-lockdown.read-only-user",)
    told = "user bringup may not control the server (privileges 0x1)"
    assert any(told in line for line in bios.plan(MODEL, None, (), fault).lines)
    page = apply(faults=fault)
    assert (page.status, page.lines[0]) == (3, "not applied (bios.preflight-lockdown):")
    assert told in page.lines[1]
    assert writes(asked) == []


@pytest.mark.parametrize("words", ["apply --no-reboot", "clear --fault bios.preflight-pending ProcX2Apic"])
def test_what_is_left_on_the_machine_is_said_where_standard_output_takes_nothing(shell, words):
    done = shell(f'"${{bringup[@]}}" bios {words.replace(" ", f" --bench {MODEL} ", 1)} >/dev/full')
    assert done.returncode == 2
    assert done.stderr.count("hand-over: ") == 1
    assert "No space left on device" in done.stderr
