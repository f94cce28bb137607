"""What the page draws of a run of the model: the tree, the budgets, the heat maps, the start, the settings, the training."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import html

from harness.record.lines import VOCABULARY
from harness.record.reader import read_record
from harness.report.drawings.bars import show_spaces, show_steps
from harness.report.drawings.heat import draw_maps
from harness.report.drawings.rates import show_training
from harness.report.drawings.tree import draw_trees
from harness.report.first_screen import compose
from harness.report.page import render_html
from harness.report.sections import show_settings, show_start, show_versions

_SPEC = importlib.util.spec_from_file_location("runs_of_the_model", Path(__file__).with_name("_runs.py"))
_RUNS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_RUNS)


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """Two GPUs of jbogB lost their 32-bit BARs; all seven stages ran on the rest."""
    return read_record(_RUNS.run_model("18-of-20", tmp_path_factory.mktemp("lost")))


@pytest.fixture(scope="module")
def corrupt(tmp_path_factory):
    """One ordered pair of GPUs copies wrong bytes."""
    return read_record(_RUNS.run_model("corrupt-pairs", tmp_path_factory.mktemp("corrupt")))


def words(markup):
    return " ".join(html.fragment_fromstring(str(markup)).itertext())


def rows_of(drawing):
    return html.fragment_fromstring(str(drawing)).xpath(".//g[@class='row']")


def test_every_stage_shows_its_facts_and_no_exhibit_is_large(lost):
    assert set(lost.exhibits) == {"firmware", "bios", "boot", "pcie", "p2p", "resnet50"}
    assert max(len(json.dumps(data)) for data in lost.exhibits.values()) < 20_000


def keys_of(data):
    if isinstance(data, dict):
        return set(data) | {key for inner in data.values() for key in keys_of(inner)}
    return {key for inner in data for key in keys_of(inner)} if isinstance(data, list) else set()


def test_no_key_of_an_exhibit_is_a_word_of_the_record_that_secrets_pass_unseen(lost):
    assert len(keys_of(dict(lost.exhibits))) > 40
    assert not keys_of(dict(lost.exhibits)) & VOCABULARY


def test_the_tree_has_every_expected_slot_in_its_place_and_the_lost_ones_dashed(lost):
    trees = draw_trees(lost)
    assert len(trees) == 2
    assert [len(rows_of(tree)) for tree in trees] == [12, 12]
    dashed = [row for tree in trees for row in rows_of(tree) if row.xpath("./path[contains(@class, 'lost')]")]
    assert [row.xpath("./text")[0].text for row in dashed] == ["✗ jbogB/slot09", "✗ jbogB/slot10"]
    assert all("lost at its 32-bit BARs" in words_of(row) and "serial 99900000000" in words_of(row) for row in dashed)


def words_of(row):
    return " ".join(row.itertext())


def test_links_within_their_limits_are_drawn_so_with_width_and_speed_under_load(lost):
    good = [row for row in rows_of(draw_trees(lost)[0]) if row.get("data-slot")]
    assert len(good) == 10
    for row in good:
        assert row.xpath("./path[@class='link ok']")
        assert "x16 Gen3 under load" in words_of(row)


def test_a_part_that_never_answered_stands_where_it_should_be(lost):
    data = json.loads(json.dumps(dict(lost.exhibits["pcie"])))
    gone = "pci0000:d7/00.0/00.0/00.0/00.0/09.0/00.0"
    data["tree"] = [function for function in data["tree"] if function["path"] != gone]
    drawn = draw_trees(replace(lost, exhibits=dict(lost.exhibits) | {"pcie": data}))[1]
    (before,) = [row for row in rows_of(draw_trees(lost)[1]) if "jbogB/slot09" in words_of(row)]
    (row,) = [row for row in rows_of(drawn) if "jbogB/slot09" in words_of(row)]
    assert row.xpath("./path[contains(@class, 'lost')]/@d") == before.xpath("./path[contains(@class, 'lost')]/@d")


def test_the_budget_shows_the_full_window_and_what_found_no_place(lost):
    spaces = dict(show_spaces(lost))
    full = next(space for space in spaces["pci0000:d7"] if space.kind == "memory below 4 GiB")
    assert full.state == "fail"
    assert full.said == "130 MiB of 138 MiB taken; 32 MiB more is wanted and has no place"
    assert full.taken + full.lacking == pytest.approx(100)
    assert {space.state for space in spaces["pci0000:3a"]} == {"ok"}
    assert [space.kind for space in spaces["pci0000:3a"]] == [
        "memory below 4 GiB",
        "memory above 4 GiB",
        "I/O ports",
        "bus numbers",
    ]


def test_the_maps_are_twenty_by_twenty_even_where_gpus_are_lost(lost):
    maps = draw_maps(lost)
    assert [each.name for each in maps] == ["bandwidth", "latency", "integrity"]
    for each in maps:
        drawn = html.fragment_fromstring(str(each.drawing))
        assert len(drawn.xpath(".//rect")) == 20 * 19
        assert len(drawn.xpath(".//rect[@class='none']")) == 20 * 19 - 18 * 17
        assert len(drawn.xpath(".//path[@class='uplink']")) == 1
    assert maps[2].said == "no corrupt pairs, 306 clean"


def test_a_corrupt_pair_is_marked_in_its_cell_and_listed_with_where_it_goes(corrupt):
    integrity = draw_maps(corrupt)[2]
    drawn = html.fragment_fromstring(str(integrity.drawing))
    (broken,) = drawn.xpath(".//g[@class='broken']")
    assert broken.xpath("./text")[0].text == "✗"
    assert broken.xpath("./title")[0].text.startswith("jbogB/slot02 -> jbogB/slot05: 2.09715e+06 wrong bytes, misrouted")
    assert integrity.said == "1 corrupt pair, 379 clean"
    ((pair, value, where),) = integrity.worst
    assert pair == "jbogB/slot02 -> jbogB/slot05"
    assert "misrouted" in value
    assert where.startswith("both below jbogB")


def test_the_worst_pairs_are_the_slowest_and_say_which_uplinks_they_cross(corrupt):
    worst = draw_maps(corrupt)[0].worst
    assert len(worst) == 5
    figures = [float(value.split()[0]) for _, value, _ in worst]
    measured = sorted(each.value for each in corrupt.measurements if each.name == "p2p.bandwidth")
    assert figures == measured[:5]
    assert all(where.startswith("over the uplinks of") for _, _, where in worst)


def test_the_first_screen_names_the_lost_parts_the_count_at_each_link_and_what_goes_on(lost):
    first = compose(lost)
    assert [(each.place, each.serial) for each in first.suspects] == [
        ("jbogB/slot09", "9990000000019"),
        ("jbogB/slot10", "9990000000020"),
    ]
    assert [(name, count) for name, count, is_lost in first.counts if is_lost] == [("BARs assigned", 18)]
    assert first.lead.check == "pcie.bars"
    assert "138 MiB" in first.lead_account.likely
    assert first.lead_account.next.startswith("spread the GPUs")
    assert first.information.startswith("gpu, p2p, resnet50 went on")
    assert first.command == "bringup run --bench model-lqd8360 --live --stage pcie --fault pcie.bars"


def test_the_first_screen_of_corrupt_copies_says_do_not_use(corrupt):
    first = compose(corrupt)
    assert first.alarm == "DATA CORRUPTION: do not use this machine"
    assert [each.place for each in first.suspects] == ["jbogB/slot02 -> jbogB/slot05"]


def test_the_start_has_a_bar_for_each_stage_and_they_fill_the_time(lost):
    steps = show_steps(lost)
    assert [step.name for step in steps][:2] == ["InPOST", "PrimaryProcessorInitializationStarted"]
    assert steps[-1].name == "OSRunning"
    assert 99 < steps[-1].start + steps[-1].share <= 101
    start = show_start(lost)
    assert start.console[-1] == "model-lqd8360 login:"
    assert "SYS1003" in [event[1] for event in start.events]


def test_the_settings_say_what_was_wanted_before_after_and_what_the_job_did(lost):
    settings = show_settings(lost)
    assert settings.rows[0] == ("MmioAbove4Gb", "Enabled", "Disabled", "Enabled", "yes", "")
    assert settings.off == ()
    said = [what for _, _, what, _ in settings.events]
    assert "restart asked for" in said
    assert any("succeeded, 100 %" in what for what in said)
    assert [at for at, *_ in settings.events] == sorted(at for at, *_ in settings.events)


def test_versions_stand_beside_their_baseline(lost):
    versions = show_versions(lost)
    assert versions.rows[0] == ("BIOS", "2.21.2", "not 2.4.7", "")
    assert ("System CPLD", "1.0.6") in versions.others


def test_the_training_shows_each_gpu_with_median_and_limit(lost):
    training = show_training(lost)
    assert len(training.gpus) == 18
    assert max(gpu.share for gpu in training.gpus) == 100
    assert training.floor_share < training.median_share <= 100
    assert training.floor_share == pytest.approx(0.95 * training.median_share, abs=0.02)
    assert {gpu.state for gpu in training.gpus} == {"ok"}
    assert len(html.fragment_fromstring(str(training.windows)).xpath(".//rect[@class='bar']")) == 12


def test_every_value_is_text_on_the_page_without_its_script(corrupt):
    page = html.document_fromstring(render_html(corrupt))
    for script in page.xpath("//script"):
        script.drop_tree()
    cells = {" ".join(cell.text_content().split()) for cell in page.xpath("//td")}
    assert {" ".join(each.shown.split()) for each in corrupt.measurements} <= cells
    assert {each.name for each in corrupt.measurements} <= cells
    assert not page.xpath("//*[@src]")
    assert not [link for link in page.xpath("//@href") if not link.startswith("./")]
