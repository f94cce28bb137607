"""The dashboard asks only for what the Prometheus rendering writes, and stands straight."""

import json
import re
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.cli.commands.runs import dashboard
from harness.record.reader import read_record
from harness.report.formats import render_as
from harness.report.formats.dashboard import dashboard_text

FUNCTIONS = {"count", "max", "min", "sum", "by", "time", "vector", "bottomk", "or"}


@pytest.fixture(scope="module")
def board():
    return json.loads(dashboard_text())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Every metric with its labels and their values, as a parser reads the rendering of a whole run."""
    folder = tmp_path_factory.mktemp("fleet")
    words = (
        "run",
        "--bench",
        "model-lqd8360",
        "--live",
        "--stage",
        "bmc",
        "--stage",
        "gpu",
        "--stage",
        "p2p",
        "--stage",
        "resnet50",
    )
    command = [sys.executable, "-m", "harness", *words, "--fault", "gpu.ecc"]
    assert subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False).returncode == 1
    found = {}
    for family in text_string_to_metric_families(render_as("prometheus")(read_record(folder / "reports" / "latest"))):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            assert sample.timestamp is None
            for label, value in sample.labels.items():
                found.setdefault(sample.name, {}).setdefault(label, set()).add(value)
    return found


def test_every_metric_label_and_name_that_is_asked_for_is_written(board, written):
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    seen = set()
    for query in asked:
        for metric, selector in re.findall(r"(bringup_\w+)(?:\{(.*?)\})?", query):
            assert metric in written, query
            seen.add(metric)
            for label, operator, value in re.findall(r'(\w+)(=~|!=|=)"(.*?)"', selector):
                assert label in written[metric], query
                if label == "name":
                    assert value in written[metric]["name"], query
                assert operator in ("=", "=~", "!=")
        for grouped in re.findall(r"by \((.*?)\)", query):
            labels = set(grouped.split(", "))
            assert labels <= set().union(*(written[name] for name in re.findall(r"bringup_\w+", query))) | {"blame"}, query
        words = set(re.findall(r"\b[a-z_]+\b", re.sub(r"\{.*?\}|by \(.*?\)", "", query))) - set(written)
        assert words <= FUNCTIONS | {"label_values", "bench", "source"}, query
    assert seen == set(written)


def test_panels_have_ids_of_their_own_and_overlap_nowhere(board):
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
    assert board["templating"]["list"][0]["type"] == "datasource"


def test_the_command_prints_it(capsys):
    dashboard()
    assert json.loads(capsys.readouterr().out)["uid"] == "bringup-fleet"
