"""The ledger writes whole lines, in a fixed shape, masked, and survives whatever happens to its process."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import BenchError, Blame, BringupError, UsageMistake
from harness.limits import at_least, exactly
from harness.measurement import Measurement
from harness.part import Part
from harness.record.ledger import Ledger
from harness.record.lines import LINES
from harness.record.reader import read_record
from harness.secret import Secret


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "run" / "results.jsonl", str)


def lines(ledger: Ledger) -> list[dict]:
    return [json.loads(line) for line in ledger.path.read_text(encoding="utf-8").splitlines()]


def test_making_a_ledger_touches_nothing(ledger, tmp_path):
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", sorted(LINES))
def test_a_line_has_all_keys_of_its_kind_in_their_order_whatever_was_given(ledger, kind):
    last = LINES[kind][-1][0]
    ledger.write(kind, **{last: None})
    assert list(lines(ledger)[0]) == ["seq", "kind", *(key for key, _ in LINES[kind])]


def test_keys_come_in_their_own_order_not_in_the_callers(ledger):
    ledger.write("end", at=1.0, exit=1, blame="product", verdict="FAILED")
    assert ledger.path.read_text() == '{"seq":1,"kind":"end","verdict":"FAILED","blame":"product","exit":1,"at":1.0}\n'


def test_sequence_numbers_count_from_one(ledger):
    for text in ("a", "b", "c"):
        ledger.write("note", text=text)
    assert [(line["seq"], line["text"]) for line in lines(ledger)] == [(1, "a"), (2, "b"), (3, "c")]


def test_what_the_grammar_does_not_know_is_written_after_what_it_knows(ledger):
    ledger.write("note", colour="red", text="x")
    ledger.write("weather", rain=True)
    assert list(lines(ledger)[0]) == ["seq", "kind", "text", "colour"]
    assert lines(ledger)[1] == {"seq": 2, "kind": "weather", "rain": True}


def test_a_line_is_in_the_file_as_soon_as_it_is_written(ledger):
    ledger.write("note", text="now")
    assert lines(ledger)[0]["text"] == "now"


def test_a_measurement_is_written_with_its_limit_and_its_part(ledger):
    part = Part("jbogA/slot01", "RTX 8000", "123", "900-1", "90.02", "3b:00.0")
    measured = Measurement("p2p.write", 12.5, "GB/s", at_least(11, "GB/s", marginal=13), part, 7.25, "first of three")
    ledger.measurement(measured, case="p2p.write[jbogA/slot01]", check="p2p.write")
    assert lines(ledger)[0] == {
        "seq": 1,
        "kind": "measurement",
        "case": "p2p.write[jbogA/slot01]",
        "check": "p2p.write",
        "name": "p2p.write",
        "value": 12.5,
        "unit": "GB/s",
        "limit": ">= 11 GB/s",
        "bounds": {"kind": "at_least", "values": [11]},
        "outcome": "marginal",
        "margin": 1.5,
        "part": {
            "slot": "jbogA/slot01",
            "model": "RTX 8000",
            "serial": "123",
            "part_number": "900-1",
            "firmware": "90.02",
            "address": "3b:00.0",
        },
        "at": 7.25,
        "note": "first of three",
    }


def test_a_measurement_without_limit_part_or_value_says_null(ledger):
    ledger.measurement(Measurement("pcie.aperture", None, note="not root"), case="c", check="c")
    line = lines(ledger)[0]
    assert (line["value"], line["limit"], line["margin"], line["part"], line["outcome"]) == (None,) * 4 + ("not measured",)


def test_times_are_written_to_the_microsecond(ledger):
    ledger.write("case", took=0.1 + 0.2, at=1.0000001)
    assert (lines(ledger)[0]["took"], lines(ledger)[0]["at"]) == (0.3, 1.0)


def test_every_string_value_is_masked_at_any_depth(tmp_path):
    ledger = Ledger(tmp_path / "results.jsonl", lambda text: text.replace("hunter2", "<secret>"))
    deep = {"list": ["hunter2", {"inner": ("x hunter2",)}], "set": {"hunter2"}, "object": Path("/tmp/hunter2")}
    ledger.write("identity", facts=deep)
    ledger.write("case", message="login hunter2 failed", attachments=["evidence/hunter2.log"])
    ledger.measurement(Measurement("name", "hunter2", note="hunter2", limit=exactly("hunter2")), case="hunter2", check="c")
    text = ledger.path.read_text()
    assert "hunter2" not in text
    assert text.count("<secret>") == 11


def test_a_secret_is_written_masked(ledger):
    ledger.write("note", text=Secret("hunter2"))
    assert lines(ledger)[0]["text"] == "<secret>"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Path("/a/b"), "/a/b"),
        (b"caf\xe9", "caf\\xe9"),
        (Blame.BENCH, "bench"),
        ("half \ud800 pair", "half \\ud800 pair"),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ((1, 2.5, True, None), [1, 2.5, True, None]),
        ({1: "one"}, {"1": "one"}),
        (Mute(), "<Mute without a text>"),
        ("line\nbreak \x1b[31m", "line\nbreak \x1b[31m"),
    ],
)
def test_a_value_that_json_does_not_know_becomes_its_text(ledger, value, written):
    ledger.write("note", text=value)
    assert lines(ledger)[0]["text"] == written
    assert ledger.path.read_bytes().count(b"\n") == 1


def test_a_list_that_holds_itself_does_not_stop_the_record(ledger):
    endless: list = ["begin"]
    endless.append(endless)
    ledger.write("note", text=endless)
    assert "begin" in ledger.path.read_text()
    assert lines(ledger)[0]["seq"] == 1


def test_a_mask_that_raises_leaves_no_line_and_no_gap(tmp_path):
    def mask(text: str) -> str:
        if text == "bad":
            raise ValueError(text)
        return text

    ledger = Ledger(tmp_path / "results.jsonl", mask)
    ledger.write("note", text="one")
    with pytest.raises(ValueError, match="bad"):
        ledger.write("note", text="bad")
    ledger.write("note", text="two")
    assert [(line["seq"], line["text"]) for line in lines(ledger)] == [(1, "one"), (2, "two")]


def test_a_second_record_in_the_same_place_is_refused(ledger):
    ledger.write("note", text="first")
    with pytest.raises(UsageMistake, match="holds a record already"):
        Ledger(ledger.path, str).write("note", text="second")
    assert len(lines(ledger)) == 1


def test_a_full_disk_is_one_clear_line_and_leaves_no_half_line(ledger):
    """A file-size limit makes the kernel take a part of the write first and refuse the rest, as a full disk does."""
    ledger.write("note", text="fits")
    whole = ledger.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, hard))
    try:
        with pytest.raises(BenchError, match=r"results\.jsonl: the disk took only a part") as partly:
            ledger.write("note", text="x" * 500)
        assert ledger.path.read_bytes() == whole
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole), hard))
        with pytest.raises(BenchError, match=r"results\.jsonl: cannot write the record: File too large") as refused:
            ledger.write("note", text="x" * 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(partly.value) + str(refused.value)
    assert ledger.path.read_bytes() == whole
    ledger.write("note", text="room again")
    assert [line["seq"] for line in lines(ledger)] == [1, 2]


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot write the record"):
        Ledger(tmp_path / "file" / "results.jsonl", str).write("note", text="x")


def test_a_line_after_the_close_is_refused_and_closing_twice_is_harmless(ledger):
    ledger.write("note", text="x")
    ledger.close()
    ledger.close()
    with pytest.raises(BringupError, match="closed"):
        ledger.write("note", text="late")
    assert len(lines(ledger)) == 1


def test_a_ledger_that_never_wrote_closes_without_a_file(ledger):
    ledger.checkpoint()
    ledger.close()
    assert not ledger.path.exists()


def test_checkpoint_and_close_have_the_disk_keep_the_file(ledger, monkeypatch):
    kept = []
    monkeypatch.setattr(os, "fsync", lambda file: kept.append(os.fstat(file).st_size))
    ledger.write("note", text="one")
    ledger.checkpoint()
    ledger.write("note", text="two")
    ledger.close()
    size = ledger.path.stat().st_size
    assert kept == [size // 2, size]


WRITER = """
import sys
from pathlib import Path
from harness.record.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), str)
ledger.write("run", id="r", mode="replay", source="model", stages=["pcie"])
number = 0
while True:
    number += 1
    ledger.write("case", case=f"pcie.width[{number}]", check="pcie.width", stage="pcie", outcome="passed", message="m" * 3000)
"""


def test_a_run_killed_in_the_middle_of_writing_leaves_a_readable_record(tmp_path):
    path = tmp_path / "results.jsonl"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        patience = time.monotonic() + 20
        while (not path.exists() or path.stat().st_size < 200_000) and time.monotonic() < patience:
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    record = read_record(path)
    assert not record.closed
    assert record.end is None
    assert record.damage == ()
    assert len(record.cases) > 50
    assert [case.id for case in record.cases] == [f"pcie.width[{number}]" for number in range(1, len(record.cases) + 1)]


@pytest.mark.parametrize("secret", ["passed", "run", "pcie", "product", "live", "end"])
def test_a_secret_that_reads_like_a_word_of_the_record_does_not_damage_it(tmp_path, secret):
    ledger = Ledger(tmp_path / "results.jsonl", lambda text: text.replace(secret, "***"))
    ledger.write("run", schema=1, id="r1", mode="live", source="model", stages=["pcie"], bench=f"b-{secret}")
    ledger.write("plan", cases=[{"case": "pcie.width", "check": "pcie.width", "stage": "pcie", "slot": None, "title": secret}])
    ledger.write("case", case="a", check="a", stage="pcie", outcome="passed", blame="product", message=f"say {secret}")
    ledger.write("end", verdict="PASSED", blame="", exit=0, at=1.0)
    ledger.close()
    record = read_record(tmp_path / "results.jsonl")
    assert record.closed
    assert record.run.stages == ("pcie",)
    assert record.planned[0].stage == "pcie"
    assert record.cases[0].outcome == "passed"
    assert record.cases[0].message == "say ***"
    assert record.run.bench == "b-***"
