"""``bringup run --grow``: a start for each step, on the modelled machine."""

import subprocess

import pytest

from harness import locator
from harness.cli.grow import Asked, grow
from harness.errors import UsageMistake


@pytest.fixture
def grown():
    def told(bench="model-lqd8360", **options):
        lines = []
        status = grow(Asked(str(bench), **options), lines.append)
        return status, [line for text in lines for line in text.splitlines()]

    return told


@pytest.fixture
def narrow(tmp_path, monkeypatch):
    """A bench whose platform foretells that three GPUs fit behind each slot."""
    folder = tmp_path / "fixtures"
    (folder / "platforms").mkdir(parents=True)
    (folder / "benches").mkdir()
    _, file = locator.find_platform("lqd8360")
    text = file.read_text().replace('name = "lqd8360"', 'name = "narrow"').replace('low = "216 MiB"', 'low = "64 MiB"')
    (folder / "platforms" / "narrow.toml").write_text(text)
    bench = folder / "benches" / "narrow.toml"
    bench.write_text('schema = 1\nname = "model-lqd8360"\nplatform = "narrow"\nservice_tag = "MODEL01"\n[lab]\ngrade = "model"\n')
    monkeypatch.chdir(tmp_path)
    return bench


def steps_in(lines):
    return [int(line.split()[0]) for line in lines if " in place" in line and line.startswith("  ")]


def test_the_modelled_machine_grows_to_twenty_and_nothing_is_left(grown):
    status, lines = grown()
    assert status == 0
    assert steps_in(lines) == [1, 2, 4, 8, 16, 20]
    assert "grown to 20 of 20 GPUs" in lines
    assert lines[-1] == "hand-over: nothing was left on the machine"
    assert "MODELLED" in lines[0]


def test_it_ends_where_a_start_loses_a_gpu_and_says_which(grown):
    status, lines = grown(faults=("pcie.chain-link",))
    assert status == 1
    assert steps_in(lines) == [1, 2, 4, 8, 16]
    assert "ended at 16 GPUs; 8 were in place before:" in lines
    assert any("jbogB/slot07 (serial 9990000000017) is lost at its link" in line for line in lines)
    assert "4 of 20 GPUs are detached (jbogA/slot09" in lines[-1]


def test_it_ends_where_the_machine_does_not_come_back(grown):
    status, lines = grown(faults=("boot.loop",))
    assert status == 1
    assert steps_in(lines) == [1]
    assert "ended at 1 GPUs; 0 were in place before:" in lines
    assert any("UEFI0256" in line for line in lines)


def test_no_step_is_taken_above_the_predicted_limit(grown, narrow):
    status, lines = grown(narrow)
    assert status == 1
    assert steps_in(lines) == [1, 2, 4, 6]
    stop = next(line for line in lines if line.startswith("stopped at"))
    assert stop.startswith("stopped at 6 of 20 GPUs: PCIe Slot 1 holds 3 safely")
    assert "14 of 20 GPUs are detached" in lines[-1]


def test_a_machine_that_is_not_modelled_is_not_grown(grown, tmp_path):
    with pytest.raises(UsageMistake, match="on the modelled machine only"):
        grown("virtual-r640")


@pytest.mark.parametrize(
    "options",
    [
        ("--grow",),
        ("--bench", "model-lqd8360", "--replay", "--grow"),
        ("--bench", "model-lqd8360", "--live", "--no-apply", "--grow"),
    ],
)
def test_growing_needs_a_live_machine_and_consent(program, options, tmp_path):
    done = subprocess.run([*program, "run", *options], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert "--grow restarts a machine at every step" in done.stderr
    assert not list(tmp_path.iterdir())
