"""Texts from outside are shown whole or say that they are cut, and never act on what shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from harness.report.text import clip, clip_bytes, first_sentence, is_inside, one_line, printable

ANY = st.text(alphabet=st.characters(codec=None))


@given(ANY)
def test_a_printable_text_fits_into_xml_and_utf8(text):
    shown = printable(text)
    element = etree.Element("e")
    element.text = shown
    assert (etree.fromstring(etree.tostring(element)).text or "") == shown
    assert "\x1b" not in shown
    assert printable(shown) == shown


def test_what_cannot_be_shown_becomes_its_escape():
    assert printable("a\x1b[31mb\x00\x85\u202e\ud800\r\nc\rd\te") == "a\\x1b[31mb\\x00\\x85\\u202e\\ud800\nc\nd\te"


@given(ANY)
def test_one_line_is_one_line(text):
    assert len(one_line(text).splitlines()) <= 1


def test_one_line_keeps_the_columns_of_a_measurement():
    assert one_line("a = 1  [2]  PASS\n   b\tc ") == "a = 1  [2]  PASS b c"


def test_a_cut_text_says_how_much_is_missing():
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdef", 4) == "abcd ... (2 more characters in results.jsonl)"


@given(ANY, st.integers(100, 300))
def test_a_text_cut_by_bytes_never_exceeds_its_limit(text, limit):
    shown = clip_bytes(text * 20, limit)
    assert len(shown.encode("utf-8", "backslashreplace")) <= limit


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("18 of 20 GPUs are there\n  chain ...", "18 of 20 GPUs are there"),
        ("\n\n  It broke. Then more. And more.", "It broke."),
        ("pcie.width is 8. see e.g. the chain", "pcie.width is 8. see e.g. the chain"),
        ("", ""),
    ],
)
def test_the_first_sentence_is_the_first_thing_said(text, sentence):
    assert first_sentence(text) == sentence


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("evidence/a.log", True),
        ("a..b", True),
        ("", False),
        ("/etc/x", False),
        ("a/../../x", False),
        ("..\\x", False),
        ("\\\\h\\x", False),
    ],
)
def test_an_attachment_is_inside_the_folder_of_its_run(path, inside):
    assert is_inside(path) is inside
