"""``tape keep``, ``tape trim`` and ``--strict-tapes``, as a person uses them."""

import json
import shutil
import subprocess
import sys

import pytest

from harness import locator
from harness.cli.tape import check, keep
from harness.cli.trim import trim
from harness.errors import TapeError, UsageMistake
from harness.tape.format import Tape
from harness.tape.trim import size_of, write_trimmed

BUNDLED = locator.shipped() / "fixtures" / "tapes" / "model-lqd8360"
RUN = ("run", "--bench", "model-lqd8360")


def bringup(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "harness", *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """A live run of a machine that lost a slot."""
    folder = tmp_path_factory.mktemp("lost")
    assert bringup(folder, *RUN, "--live", "--stage", "pcie", "--fault", "pcie.chain-link").returncode == 1
    return folder


def test_the_recording_of_a_failed_run_is_kept_and_replays_to_the_same_failure(lost):
    kept = bringup(lost, "tape", "keep", "latest", "lost-slot")
    assert kept.returncode == 0, kept.stderr
    assert "holds the recording of" in kept.stdout
    assert "source model, with pcie.chain-link, FAILED" in kept.stdout
    refused = bringup(lost, "tape", "keep", "latest", "lost-slot")
    assert (refused.returncode, "exists; --force replaces it" in refused.stderr) == (2, True)
    again = bringup(lost, *RUN, "--replay", "--tapes", "lost-slot", "--stage", "pcie")
    assert again.returncode == 1
    assert "pcie.chain-link[jbogB/slot07]" in again.stdout


@pytest.fixture
def run(lost, tmp_path):
    folder = tmp_path / "run"
    (live,) = [path for path in (lost / "reports").iterdir() if not path.is_symlink() and (path / "tape").exists()]
    shutil.copytree(live, folder)
    return folder


def test_a_run_that_never_ended_is_not_kept(run, tmp_path):
    record = run / "results.jsonl"
    record.write_text("\n".join(record.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(UsageMistake, match="never came to its end"):
        keep(run, "x", tmp_path / "tapes", force=False)
    assert not (tmp_path / "tapes").exists()


def test_a_replay_has_nothing_to_keep(run, tmp_path):
    shutil.rmtree(run / "tape")
    with pytest.raises(UsageMistake, match="left no recording; only live runs do"):
        keep(run, "x", tmp_path / "tapes", force=False)


def test_a_recording_with_a_secret_in_it_is_not_kept(run, tmp_path):
    track = next((run / "tape").rglob("*.jsonl"))
    first = json.loads(track.read_text().splitlines()[0])
    track.write_text(json.dumps(first | {"ask": {"Password": "calvin-was-here"}}) + "\n" + track.read_text())
    with pytest.raises(TapeError):
        keep(run, "x", tmp_path / "tapes", force=False)
    assert not (tmp_path / "tapes" / "x").exists()


@pytest.mark.parametrize("name", ["../x", ".x", "a/b", "", "a b"])
def test_a_name_that_leaves_the_folder_is_refused(run, tmp_path, name):
    with pytest.raises(UsageMistake, match="is no name for a tape"):
        keep(run, name, tmp_path / "tapes", force=True)


@pytest.fixture
def tape(tmp_path):
    return shutil.copytree(BUNDLED, tmp_path / "tapes" / "model-lqd8360")


def test_a_trimmed_tape_keeps_its_stages_and_says_what_it_said(tape):
    before = size_of(Tape.open(tape))
    done = bringup(tape.parents[1], "tape", "trim", str(tape), "--stage", "bmc", "--stage", "pcie")
    assert done.returncode == 0, done.stderr
    after = size_of(Tape.open(tape))
    assert after.bytes < before.bytes / 2
    assert Tape.open(tape).info.stages == ("bmc", "pcie")
    assert check([str(tape)], None) == ([f"{tape}: clean"], True)
    again = bringup(tape.parents[1], *RUN, "--replay", "--tapes", str(tape))
    assert "the tape was recorded without it" in again.stdout
    assert again.returncode == 0


@pytest.mark.slow
def test_a_dry_run_only_says_it(tape):
    before = {path: path.read_bytes() for path in tape.rglob("*") if path.is_file()}
    done = bringup(tape.parents[1], "tape", "trim", str(tape), "--stage", "bmc", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "nothing was changed" in done.stdout
    assert {path: path.read_bytes() for path in tape.rglob("*") if path.is_file()} == before


def test_a_tape_whose_replay_would_differ_stays_as_it_is(tape, monkeypatch):
    monkeypatch.setattr("harness.cli.trim._replay", iter_replays([{"seq": 1}, {"seq": 2, "kind": "case"}], [{"seq": 1}]))
    before = (tape / "tape.toml").read_bytes()
    with pytest.raises(TapeError, match="stays as it is, for its replay would differ: 2 lines before, 1 after"):
        trim(str(tape), None, (), dry_run=False)
    assert (tape / "tape.toml").read_bytes() == before


def iter_replays(*records):
    left = iter(records)
    return lambda tape, stages, reports: (next(left), frozenset(tape.tracks()))


def test_a_stage_that_is_not_on_the_tape_is_refused_with_the_nearest(tape):
    with pytest.raises(UsageMistake, match="no stage 'pci'; did you mean 'pcie'"):
        trim(str(tape), None, ["pci"], dry_run=True)


def test_trimming_writes_the_very_bytes_of_the_tracks_it_keeps(tape, tmp_path):
    whole = Tape.open(tape)
    write_trimmed(whole, tmp_path / "smaller", set(whole.tracks()), whole.info.stages)
    for path in (path for path in tape.rglob("*") if path.is_file()):
        assert (tmp_path / "smaller" / path.relative_to(tape)).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_an_old_tape_is_replayed_with_a_warning_and_refused_if_strict(tape):
    header = (tape / "tape.toml").read_text()
    recorded = next(line for line in header.splitlines() if line.startswith("recorded_at"))
    (tape / "tape.toml").write_text(header.replace(recorded, 'recorded_at = "2020-01-31T12:00:00+00:00"'))
    words = (*RUN, "--replay", "--tapes", str(tape), "--stage", "bmc")
    warned = bringup(tape.parents[1], *words)
    assert warned.returncode == 0, warned.stderr
    assert "days old (recorded 2020-01-31)" in " ".join(warned.stdout.split())
    strict = bringup(tape.parents[1], *words, "--strict-tapes")
    assert (strict.returncode, strict.stdout) == (4, "")
    assert "days old" in strict.stderr
    lines, clean = check([str(tape)], None)
    assert clean
    assert any("warning: the tape is" in line for line in lines)
    assert check([str(tape)], None, strict=True)[1] is False
