"""Reports appear whole, beside their record, or not at all; and rendering costs nothing until it is asked for."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import etree

from harness.errors import BenchError, UsageMistake
from harness.report import files
from harness.report.files import write_reports
from harness.report.page import render_html


def test_both_reports_are_written_beside_the_record(on_fire):
    folder = on_fire.path.parent
    reports = write_reports(folder)
    assert (reports.junit, reports.page) == (folder / "junit.xml", folder / "report.html")
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "report.html", "results.jsonl"]
    assert etree.parse(reports.junit).getroot().tag == "testsuites"
    assert reports.page.read_text(encoding="utf-8") == render_html(reports.record)
    assert reports.record == on_fire


def test_writing_again_replaces_them(healthy):
    folder = healthy.path.parent
    first = write_reports(folder).page.read_bytes()
    (folder / "report.html").write_text("old")
    assert write_reports(folder).page.read_bytes() == first


def test_hostile_records_are_written_too(hostile, monkeypatch):
    monkeypatch.setattr(files, "read_record", lambda folder: hostile)
    reports = write_reports(hostile.path.parent)
    reports.page.read_bytes().decode("utf-8")
    etree.parse(reports.junit, etree.XMLParser(huge_tree=True))


def test_others_may_read_the_reports_as_the_umask_says(healthy):
    mask = os.umask(0o022)
    try:
        reports = write_reports(healthy.path.parent)
    finally:
        os.umask(mask)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (reports.junit, reports.page)} == {0o644}


def test_nothing_is_written_where_there_is_no_record(tmp_path):
    with pytest.raises(UsageMistake, match="there is no record"):
        write_reports(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_rendering_that_fails_leaves_the_old_reports(healthy, monkeypatch):
    folder = healthy.path.parent
    write_reports(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def explode(record):
        raise RuntimeError("template")

    monkeypatch.setattr(files, "render_html", explode)
    with pytest.raises(RuntimeError):
        write_reports(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_disk_that_refuses_is_one_clear_line_and_leaves_the_old_report(healthy, monkeypatch):
    folder = healthy.path.parent
    (folder / "junit.xml").write_text("old")

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BenchError, match=r"junit\.xml: cannot write the report: No space left on device$"):
        write_reports(folder)
    assert (folder / "junit.xml").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "results.jsonl"]


HEAVY = ("jinja2", "rich", "junit_xml", "pytest", "pydantic", "redfish")


@pytest.mark.parametrize(
    ("module", "loads"),
    [
        ("harness.report", ()),
        ("harness.record.ledger", ()),
        ("harness.record.verdict", ()),
        ("harness.record.reader", ()),
        ("harness.report.headline", ()),
        ("harness.report.terminal", ("rich",)),
        ("harness.report.files", ("jinja2", "junit_xml")),
    ],
)
def test_a_module_loads_only_the_libraries_it_renders_with(module, loads):
    script = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == loads


def test_two_replays_write_the_same_record_and_the_same_page_but_for_their_run_line(tell):
    first, second = (tell(run={"id": name, "started": f"2026-11-30T12:00:0{at}+00:00"}) for at, name in enumerate("ab"))
    lines = [Path(record.path).read_text().splitlines() for record in (first, second)]
    assert lines[0][0] != lines[1][0]
    assert lines[0][1:] == lines[1][1:]
    assert render_html(first).replace("12:00:00", "12:00:01").replace("<dd>a</dd>", "<dd>b</dd>") == render_html(second)
