"""Checks that people add: measured, blamed, gated and counted like the shipped ones."""

import pytest

CHECKS = """
import pytest
from harness.errors import BenchError, Blocked, DeviceError, NotApplicable, NotMeasured
from harness.limits import at_least, exactly

@pytest.mark.check("bmc.two-limits")
def test_all_violated_limits_are_named(measure):
    measure("a", 1, limit=exactly(2))
    measure("b", 5, limit=at_least(3))
    measure("c", 1, limit=at_least(3))
    assert 1 + 1 == 3, "and the sum is wrong"

@pytest.mark.check("bmc.missing")
def test_a_missing_value_is_not_a_pass(measure):
    measure("d", None, limit=exactly(2), note="no root")

@pytest.mark.check("bmc.bench")
def test_the_bench_can_break_in_the_middle():
    raise BenchError("the cable fell out")

@pytest.mark.check("bmc.product")
def test_the_product_can_say_no():
    raise DeviceError("no")

@pytest.mark.check("bmc.harness")
def test_the_harness_can_be_wrong():
    {}["nowhere"]

@pytest.mark.check("bmc.nothing")
def test_there_may_be_nothing_to_judge():
    raise NotApplicable("no such part")

@pytest.mark.check("bmc.blocked")
def test_something_else_may_be_in_the_way():
    raise Blocked("BLOCKED by the weather")

@pytest.fixture(scope="session")
def reading():
    raise BenchError("the meter is off")

@pytest.mark.check("bmc.first-user")
def test_the_first_user_of_a_broken_fact_fails(reading): ...

@pytest.mark.check("bmc.second-user")
def test_later_users_are_blocked_with_the_reason(reading): ...

def test_a_check_without_an_id_gets_one(slot): ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checks")
    (folder / "test_checks.py").write_text(CHECKS)
    return folder


@pytest.fixture
def done(bringup, folder, tmp_path):
    return bringup("run", "--suite", str(folder / "test_checks.py"), "--stage", "bmc", folder=tmp_path)


def test_each_ending_of_a_check_is_told_apart(done):
    found = {case: (line["outcome"], line["blame"]) for case, line in done.cases.items()}
    assert (
        found.items()
        >= {
            "bmc.two-limits": ("failed", "product"),
            "bmc.missing": ("not measured", ""),
            "bmc.bench": ("error", "bench"),
            "bmc.product": ("failed", "product"),
            "bmc.harness": ("error", "harness"),
            "bmc.nothing": ("not applicable", ""),
            "bmc.blocked": ("blocked", ""),
            "bmc.first-user": ("error", "bench"),
            "bmc.second-user": ("blocked", ""),
        }.items()
    )
    assert done.status == 4


def test_the_message_is_the_table_of_violated_limits_and_the_assertion(done):
    lines = done.cases["bmc.two-limits"]["message"].splitlines()
    assert lines[0] == "a = 1  [2]  FAIL"
    assert lines[1] == "c = 1  [>= 3]  FAIL"
    assert lines[2].startswith("and the sum is wrong")
    assert not any(line.startswith("b = ") for line in lines)


def test_a_blocked_check_gives_the_original_reason(done):
    assert "the meter is off" in done.cases["bmc.second-user"]["message"]


def test_a_check_without_an_id_runs_after_the_stages_once_a_slot(bringup, folder, tmp_path):
    done = bringup("run", "--suite", str(folder / "test_checks.py"), folder=tmp_path)
    own = [case for case in done.cases if case.startswith("own.")]
    assert len(own) == 20
    assert own[0] == "own.checks.a_check_without_an_id_gets_one[jbogA/slot01]"


def test_two_checks_of_one_id_are_refused(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(
        'import pytest\n@pytest.mark.check("bmc.same")\ndef test_a(): ...\n@pytest.mark.check("bmc.same")\ndef test_b(): ...\n'
    )
    done = bringup("run", "--suite", "test_a.py", folder=tmp_path)
    assert done.status == 2
    assert "check id 'bmc.same' stands twice" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def test_a(:\n", "SyntaxError"),
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
        ('import pytest\n@pytest.mark.check("mine.x")\ndef test_a(): ...\n', "not 'mine.x'"),
        ('import pytest\n@pytest.mark.check("own.Two Words")\ndef test_a(): ...\n', "not 'own.Two Words'"),
        ("def help_me(): ...\n", "no test found in test_a.py"),
    ],
)
def test_a_mistake_in_a_check_file_is_one_line_and_nothing_is_written(bringup, tmp_path, source, says):
    (tmp_path / "test_a.py").write_text(source)
    done = bringup("run", "--suite", "test_a.py", folder=tmp_path)
    assert done.status == 2, done.out + done.err
    assert says in done.err
    assert "test_a.py" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "reports").exists()


def test_own_checks_run_whatever_stage_is_selected(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a(bench): ...\n")
    for stages in (("--stage", "bmc"), ("--stage", "own")):
        done = bringup("run", "--suite", "test_a.py", *stages, folder=tmp_path, env={})
        assert done.status == 0, done.out + done.err
        assert "own.a.a" in done.out + str(sorted(line["case"] for line in done_cases(tmp_path)))


def test_an_expected_failure_that_passes_is_said_and_fails(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text("import pytest\n@pytest.mark.xfail(reason='errata 7')\ndef test_a(): ...\n")
    done = bringup("run", "--suite", "test_a.py", "--stage", "own", folder=tmp_path)
    assert done.status == 4
    assert done.cases["own.a.a"]["outcome"] == "error"
    assert "errata 7" in done.cases["own.a.a"]["message"]


def test_an_unforeseen_exception_is_said_in_the_first_line(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a():\n    {}['nokey']\n")
    done = bringup("run", "--suite", "test_a.py", "--stage", "own", folder=tmp_path)
    assert done.cases["own.a.a"]["message"].splitlines()[0].startswith("KeyError: 'nokey' (")
    assert "test_a.py:2" in done.cases["own.a.a"]["message"].splitlines()[0]


WRITES = """
import pytest
from harness.ports import HttpQuestion

@pytest.mark.check("own.writes")
def test_writes(bmc):
    bmc.redfish.act("POST", "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"})

@pytest.mark.check("own.dangerous")
def test_dangerous(bmc):
    bmc.redfish.act("PATCH", "/redfish/v1/Systems/System.Embedded.1/Bios/Settings", {"Attributes": {"BootMode": "Bios"}})
"""


def test_a_check_cannot_write_without_consent(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(WRITES)
    done = bringup(
        "run", "--bench", "model-lqd8360", "--live", "--no-apply", "--stage", "own", "--suite", "test_a.py", folder=tmp_path
    )
    assert done.status == 3, done.out
    assert "needs --apply" in done.cases["own.writes"]["message"]
    assert "nothing was left on the machine" in done.out


def test_a_check_cannot_set_a_dangerous_value_unnamed_and_what_it_writes_is_handed_over(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(WRITES)
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--stage", "own", "--suite", "test_a.py", folder=tmp_path)
    assert "--danger boot-mode" in done.cases["own.dangerous"]["message"]
    assert done.cases["own.writes"]["outcome"] == "passed"
    assert "ComputerSystem.Reset" in done.lines[-2]["text"]
    assert "for its author to say" in done.out.replace("\n", " ")


def test_a_check_of_one_s_own_does_not_run_on_another_machine(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(WRITES)
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--fault", "bmc.identity", "--suite", "test_a.py", folder=tmp_path)
    assert done.cases["own.writes"]["outcome"] == "blocked"


def test_a_check_that_ends_the_run_early_leaves_it_incomplete(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(
        'import pytest\n@pytest.mark.check("bmc.aaa")\ndef test_a(request):\n    request.session.shouldstop = "enough"\n'
    )
    done = bringup("run", "--suite", "test_a.py", folder=tmp_path)
    assert done.status == 3, done.out
    assert not done.failed
    assert "never reached" in done.out.splitlines()[-1] or "never reached" in done.out
    assert done.lines[-1]["verdict"] == "INCOMPLETE"


def done_cases(folder):
    import json

    latest = folder / "reports" / "latest" / "results.jsonl"
    return [line for line in map(json.loads, latest.read_text().splitlines()) if line["kind"] == "case"]


def test_a_limit_violation_alone_fails_the_product_with_exit_1(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import pytest\nfrom harness.limits import exactly\n"
        '@pytest.mark.check("bmc.narrow")\ndef test_a(measure): measure("width", 8, limit=exactly(16, "lanes"))\n'
    )
    done = bringup("run", "--suite", "test_a.py", "--stage", "bmc", folder=tmp_path)
    assert done.status == 1
    assert "width = 8 lanes  [16 lanes]  FAIL" in done.out


def test_a_value_that_was_not_measured_ends_incomplete(bringup, tmp_path):
    (tmp_path / "test_a.py").write_text(
        'import pytest\n@pytest.mark.check("bmc.gone")\ndef test_a(measure): measure("width", None, note="no root")\n'
    )
    done = bringup("run", "--suite", "test_a.py", "--stage", "bmc", folder=tmp_path)
    assert done.status == 3
    assert "INCOMPLETE" in done.out
