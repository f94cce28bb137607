"""The page: one file that fetches nothing, runs only its own script, escapes everything and shows at a glance what is broken."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest
from lxml import html

from harness.part import Part
from harness.record.entries import MeasurementRecord, Record
from harness.record.lines import CaseOutcome
from harness.report.headline import headline
from harness.report.page import href, render_html
from harness.report.text import printable

VOID = {"meta", "br", "link", "hr", "img"}


class Strict(HTMLParser):
    """Notes every tag and attribute, and that each is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parse(record: Record) -> html.HtmlElement:
    """The page as a tree, its tags balanced, nothing fetched, and no script but the one that its policy names by its hash."""
    text = render_html(record)
    strict = Strict()
    strict.feed(text)
    assert strict.open == []
    assert text.count("<script") == 1
    assert not strict.tags & {"img", "iframe", "object", "embed", "link", "form", "b", "bold"}
    for name, value in strict.attributes:
        assert not name.startswith("on")
        assert name != "src"
        assert name != "href" or (value or "").startswith("./")
    assert "url(" not in text
    assert "@import" not in text
    page = html.document_fromstring(text)
    policy = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    digest = b64encode(sha256(page.xpath("//script/text()")[0].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return page


def cells(page: html.HtmlElement) -> dict[str, str]:
    """Title of each cell of the grid -> its glyph."""
    return {cell.get("title"): cell.text_content() for cell in page.xpath("//table[@class='grid']//td")}


def words(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


@pytest.mark.parametrize("state", ["healthy", "on_fire", "interrupted", "killed"])
def test_the_page_is_well_formed_and_its_heading_is_the_headline(state, request):
    record = request.getfixturevalue(state)
    page = parse(record)
    assert page.xpath("//body/*[1]")[0].tag == "h1"
    assert words(page.xpath("//h1")[0]) == " ".join(headline(record).split())


def test_hostile_texts_stay_texts(hostile):
    page = parse(hostile)
    text = render_html(hostile)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in text)
    text.encode("utf-8")
    shown = page.xpath("//h2[@id='failures']/following-sibling::pre")[0].text_content()
    assert shown.strip().startswith(printable(hostile.notes[0]).strip()[:1000])


def test_a_script_in_a_message_is_shown_as_text(healthy):
    page = parse(replace(healthy, notes=("<script>alert('x')</script>",)))
    assert "<script>alert('x')</script>" in page.xpath("//h2[@id='notes']/following-sibling::ul")[0].text_content()


def test_the_page_is_readable_in_light_in_dark_and_on_paper(healthy):
    text = render_html(healthy)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text


def test_the_grid_has_a_row_for_each_stage_and_a_column_for_each_slot(healthy):
    page = parse(healthy)
    assert [words(row) for row in page.xpath("//table[@class='grid']//th[@scope='row']")] == list(healthy.run.stages)
    heads = page.xpath("//table[@class='grid']/thead/tr[1]/th[@colspan]")
    assert [(words(head), head.get("colspan")) for head in heads] == [("jbogA", "10"), ("jbogB", "10")]
    assert all(len(row.findall("td")) == 21 for row in page.xpath("//table[@class='grid']/tbody/tr"))


def test_the_grid_shows_which_gpu_is_broken(on_fire):
    shown = cells(parse(on_fire))
    assert shown["pcie jbogA/slot03: failed (pcie.width)"] == "✗"
    assert shown["pcie machine: failed (pcie.count)"] == "✗"
    assert shown["gpu jbogB/slot07: blocked (gpu.ecc)"] == "⊘"
    assert shown["gpu jbogA/slot05: not measured (gpu.ecc)"] == "?"
    assert shown["p2p jbogB/slot02: marginal (p2p.write)"] == "~"
    assert shown["pcie jbogA/slot01: passed"] == "✓"
    assert shown["gpu jbogB/slot01: not applicable"] == "○"
    assert sum(glyph == "✗" for glyph in shown.values()) == 4


def test_the_grid_shows_what_was_never_reached(killed):
    assert cells(parse(killed))["p2p jbogB/slot10: not reached (p2p.write)"] == "…"


def test_a_record_without_slots_has_a_grid_of_the_machine_alone(healthy):
    page = parse(replace(healthy, planned=(), cases=tuple(case for case in healthy.cases if case.slot is None)))
    assert all(len(row.findall("td")) == 1 for row in page.xpath("//table[@class='grid']/tbody/tr"))


def test_failures_are_shown_with_their_whole_message(on_fire):
    page = parse(on_fire)
    first = page.xpath("//h2[@id='failures']/following-sibling::pre")[0]
    assert first.text_content() == on_fire.cases[3].message
    assert [words(head).split()[1] for head in page.xpath("//h2[@id='failures']/following-sibling::h3")] == [
        "pcie.count",
        "pcie.width",
        "p2p.write",
        "resnet50.total",
    ]


def test_a_violated_limit_names_the_part_in_the_slot(on_fire):
    row = page_row(parse(on_fire), "limits", 0)
    assert row == ["jbogA/slot03", "9990000000003", "pcie.width", "8 lanes", "16 lanes", "", "✗ fail"]


def page_row(page: html.HtmlElement, section: str, number: int) -> list[str]:
    """The cells of a row of a section's first table."""
    table = page.xpath(f"//h2[@id='{section}']/following::table")[0]
    return [words(cell) for cell in table.xpath(".//tbody/tr")[number]]


def test_every_measurement_is_on_the_page_in_a_section_that_opens_where_something_failed(on_fire):
    page = parse(on_fire)
    sections = page.xpath("//h2[@id='measurements']/following-sibling::details")
    assert [words(section.find("summary")) for section in sections][3:6] == [
        "pcie: 21 cases, 20 measurements",
        "gpu: 20 cases, 0 measurements",
        "p2p: 20 cases, 400 measurements",
    ]
    assert [section.get("open") is not None for section in sections] == [False, False, False, True, False, True, True]
    assert sum(len(section.xpath("./div[2]//tbody/tr")) for section in sections) == len(on_fire.measurements) == 420


def test_not_measured_hand_over_firmware_and_parts_are_on_the_page(on_fire):
    text = words(parse(on_fire))
    assert "gpu.ecc[jbogA/slot05]: NVML says not supported" in text
    assert "Left on the machine: JID_123 Scheduled" in text
    assert "bios 2.12.2" in text.replace("bios2", "bios 2")
    assert "Parts (20)" in text


def test_attachments_are_links_inside_the_folder_only(healthy):
    paths = ("evidence/console 1.log", "/etc/shadow", "../../x", "javascript:alert(1)")
    page = parse(replace(healthy, cases=(replace(healthy.cases[0], attachments=paths), *healthy.cases[1:])))
    assert page.xpath("//a/@href") == ["./evidence/console%201.log", "./javascript%3Aalert%281%29"]
    assert "/etc/shadow" in words(page)
    assert href("a/../../x") == ""


def test_an_unfinished_record_says_so_first(killed):
    assert unescape(render_html(killed)).split("<h1")[1].startswith(' class="UNFINISHED"><span class="verdict">UNFINISHED: ')


def test_two_thousand_measurements_make_one_page(healthy):
    many = tuple(
        MeasurementRecord(
            f"p2p.write.{at}",
            at / 7,
            "GB/s",
            ">= 11 GB/s",
            part=Part("jbogA/slot01", serial=str(at)),
            case="p2p.write[jbogA/slot01]",
        )
        for at in range(2_000)
    )
    text = render_html(replace(healthy, measurements=many))
    assert text.count("p2p.write.1999") == 2
    assert len(text) < 2_000_000


def facts(page: html.HtmlElement) -> dict[str, str]:
    return {entry.findtext("dt"): entry.findtext("dd") for entry in page.xpath("//dl[@class='facts']/div")}


@pytest.mark.parametrize(
    ("mode", "apply", "said"),
    [
        ("replay", True, "nothing is changed; recorded with changes allowed"),
        ("replay", False, "nothing is changed; recorded without changes allowed"),
        ("live", True, "may be changed (--apply)"),
        ("live", False, "only compared"),
    ],
)
def test_a_replay_does_not_say_that_settings_may_be_changed(healthy, mode, apply, said):
    assert facts(parse(replace(healthy, run=replace(healthy.run, mode=mode, apply=apply))))["settings"] == said


def test_the_title_of_a_failed_check_is_what_was_checked_and_no_statement(on_fire):
    said = [text.text_content() for text in parse(on_fire).xpath("//h3/following-sibling::p[@class='soft'][1]")]
    assert said
    assert all(text.startswith("checks: ") for text in said)


def test_a_stage_in_which_all_was_blocked_names_no_open_gate(healthy):
    cases = tuple(
        replace(case, outcome=CaseOutcome.BLOCKED, message="BLOCKED by bmc.auth") if case.stage == "bios" else case
        for case in healthy.cases
    )
    page = parse(replace(healthy, cases=cases))
    (line,) = [words(line) for line in page.xpath("//ul[@class='stages']/li") if " bios " in words(line)]
    assert line == "⊘ bios blocked: 1 blocked BLOCKED by bmc.auth"


def test_no_heading_of_a_table_may_be_broken_inside_a_word(healthy):
    rules = render_html(healthy).partition("<style>")[2].partition("</style>")[0]
    assert "overflow-wrap: normal" in next(line for line in rules.splitlines() if line.startswith("th {"))


def test_every_outcome_has_a_mark_beside_its_colour(on_fire):
    rows = parse(on_fire).xpath("//h2[@id='limits']/following::table[1]/tbody/tr")
    assert [(row.get("class"), words(row[-1])) for row in rows] == [("fail-row", "✗ fail"), *20 * [("marginal-row", "~ marginal")]]


def test_a_version_without_a_baseline_is_told_all_the_same(healthy):
    table = parse(healthy).xpath("//h2[@id='firmware']/following::table[1]/tbody/tr")
    assert [[words(cell) for cell in row] for row in table] == [
        ["BIOS", "2.12.2", "none", "-"],
        ["iDRAC", "5.10.30.00", "none", "-"],
    ]
