"""The page in a real browser, for each first screen: wide, on a phone, dark, on paper. Screenshots stay in the test's folder.

Needs Chromium (Debian: ``apt-get install chromium``). BRINGUP_SCREENS names a folder to keep the screenshots in.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import pytest


def _neighbour(name):
    spec = importlib.util.spec_from_file_location(f"report_{name}", Path(__file__).with_name(f"_{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


runs, browser = _neighbour("runs"), _neighbour("browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]

WIDE, PHONE = (1280, 800), (360, 640)
LEAST_CONTRAST = 4.5

MUST_SAY = {
    "healthy": ("PASSED", "20 of 20 expected", "nothing that was selected"),
    "18-of-20": ("FAILED: the product's fault", "jbogB/slot09", "jbogB/slot10", "9990000000019", "138 MiB", "BARs assigned"),
    "corrupt-pairs": (
        "DATA CORRUPTION: do not use",
        "jbogB/slot02 -> jbogB/slot05",
        "misrouted",
        "0x800000",
        "379 clean",
        "alone: the same",
    ),
    "slow-training": ("resnet50.total = 12601.2 images/s", "even on all 20", "the software path, not a part", "are the same"),
    "stuck-job": ("JID_", "PR30", "MmioAbove4Gb is Disabled, wanted Enabled", "nothing of ours is pending or queued"),
    "no-boot": ("no new boot in 17 min", "PCIResourceConfigStarted", "Assigning PCIe resources", "ForceOff", "changed before"),
    "wrong-password": (
        "BROKEN: the bench's fault",
        "the machine was not judged",
        "HTTP 401",
        "one attempt was made",
        "status 3",
        "nothing was left",
    ),
    "lost-link": ("FAILED: the product's fault", "jbogB/slot07", "9990000000017"),
    "narrow-uplink": ("FAILED: the product's fault", "jbogB", "pcie.uplink-width"),
    "one-gpu": ("PASSED", "1 of 1 expected"),
}
"""What the first screen of a wide window must say."""

MUST_SAY_ON_A_PHONE = {
    "healthy": ("PASSED",),
    "18-of-20": ("FAILED: the product's fault", "jbogB/slot09", "jbogB/slot10", "32-bit BARs", "138 MiB"),
    "corrupt-pairs": ("DATA CORRUPTION: do not use", "jbogB/slot02 -> jbogB/slot05", "p2p.integrity"),
    "slow-training": ("FAILED", "resnet50.total = 12601.2 images/s"),
    "stuck-job": ("FAILED", "bios.job-state", "PR30"),
    "no-boot": ("FAILED", "boot.post-progress", "no new boot in 17 min"),
    "wrong-password": ("BROKEN: the bench's fault", "HTTP 401"),
    "lost-link": ("FAILED", "jbogB/slot07", "9990000000017"),
    "narrow-uplink": ("FAILED", "jbogB", "pcie.uplink-width"),
    "one-gpu": ("PASSED",),
}


@pytest.fixture(scope="module", params=list(runs.FAULTS))
def story(request, tmp_path_factory):
    """A run of the model and the name of its story."""
    return request.param, runs.run_model(request.param, tmp_path_factory.mktemp("run")) / "report.html"


def keep(picture):
    """Copy a screenshot to where somebody wants to look at it."""
    if folder := os.environ.get("BRINGUP_SCREENS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, Path(folder) / picture.name)


@pytest.mark.parametrize(("size", "must"), [(WIDE, MUST_SAY), (PHONE, MUST_SAY_ON_A_PHONE)], ids=["wide", "phone"])
def test_the_first_screen_says_what_is_broken_and_nothing_is_wider_than_the_window(story, tmp_path, size, must):
    name, page = story
    width, height = size
    seen = browser.look(page, tmp_path, width=width, height=height)
    shown = " ".join(seen.within(height).split())
    assert [words for words in must[name] if words not in shown] == [], shown
    assert seen.width <= width
    assert seen.buttons == 0, "the script ran although it is switched off"
    assert [text["text"] for text in seen.texts if text["overflows"]] == []
    named = [text["text"] for text in seen.texts if text["text"] in ("pci0000:3a", "pci0000:d7")]
    assert {root: named.count(root) for root in named} == dict.fromkeys(named, 2), "each host bridge has a tree and a budget"
    assert_every_text_stands_out(seen, "rgb(255, 255, 255)")
    picture = tmp_path / f"{name}-{width}.png"
    browser.shoot(page, picture, width=width, height=height)
    assert picture.stat().st_size > 10_000
    keep(picture)


def test_in_the_dark_every_text_stands_out_from_its_ground(story, tmp_path):
    name, page = story
    seen = browser.look(page, tmp_path, width=1280, height=800, dark=True)
    assert_every_text_stands_out(seen, "rgb(13, 17, 23)")
    picture = tmp_path / f"{name}-dark.png"
    browser.shoot(page, picture, width=1280, height=800, dark=True)
    keep(picture)


def assert_every_text_stands_out(seen, ground):
    assert seen.ground == ground
    assert len(seen.texts) > 100
    faint = {
        (text["text"][:30], text["css"], round(text["contrast"], 2)) for text in seen.texts if text["contrast"] < LEAST_CONTRAST
    }
    assert faint == set()


def test_on_paper_every_text_is_dark_on_white_and_few_sheets_hold_what_matters(story, tmp_path):
    name, page = story
    printed = tmp_path / "printed.html"
    printed.write_text(page.read_text(encoding="utf-8").replace("@media print", "@media all"), encoding="utf-8")
    seen = browser.look(printed, tmp_path, width=794, height=1123, dark=True)
    assert seen.ground == "rgb(255, 255, 255)"
    assert {text["text"][:30] for text in seen.texts if text["contrast"] < LEAST_CONTRAST} == set()
    assert seen.width <= 794
    paper = tmp_path / f"{name}.pdf"
    browser.to_paper(page, paper)
    pages = len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))
    assert 1 <= pages <= 20
    picture = tmp_path / f"{name}-print.png"
    browser.shoot(printed, picture, width=794, height=1123)
    keep(picture)


SORTS = """
addEventListener("load", function () {
  var table = document.querySelector("#measurements ~ details table");
  table.tHead.rows[0].cells[2].firstChild.click();
  table.tHead.rows[0].cells[2].firstChild.click();
  document.title = table.tBodies[0].rows[0].cells[2].textContent + "|" + table.tBodies[0].rows[1].cells[2].textContent;
});
"""


def test_the_script_sorts_a_table_by_its_figures(tmp_path):
    page = runs.run_model("narrow-uplink", tmp_path) / "report.html"
    text = page.read_text(encoding="utf-8")
    policy = re.search(r"script-src (&#39;sha256-[^&]+&#39;)", text)
    assert policy
    marked = tmp_path / "sorted.html"
    extra = f"<script>{SORTS}</script>"
    marked.write_text(
        text.replace(policy[1], "'unsafe-inline'").replace("</body>", f"{extra}</body>"),
        encoding="utf-8",
    )
    title = re.search(
        r"<title>([^<]*)</title>", browser._chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", marked.as_uri())
    )
    assert title
    first, second = map(float, title[1].split("|"))
    assert first >= second
    assert first > 0
