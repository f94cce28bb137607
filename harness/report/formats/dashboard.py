"""A Grafana dashboard over the last runs of many machines, as ``--format prometheus`` leaves them in a collector's folder.

    row 1   how many machines, how many did not pass, how many runs were made on hardware, the oldest run
    row 2   each machine's verdict                  what failed, by check and fault
    row 3   firmware                                age of the last run
    row 4   GPUs that the driver counts             the slowest pair of each machine
    row 5   images/s of all GPUs                    the slowest GPU alone
    row 6   the values nearest to their limits

It asks for nothing but the samples of ``harness.report.formats.prometheus``. Layout: 24 columns, as Grafana counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_MINE = 'bench=~"$bench",source=~"$source"'
_MACHINE = "bench, service_tag, source"


def dashboard_text() -> str:
    """The dashboard as JSON, for Grafana's import."""
    return json.dumps(_dashboard(), indent=2) + "\n"


def _dashboard() -> dict[str, Any]:
    return {
        "title": "Bring-up: last run of each machine",
        "uid": "bringup-fleet",
        "schemaVersion": 39,
        "tags": ["bringup"],
        "editable": True,
        "time": {"from": "now-30d", "to": "now"},
        "refresh": "5m",
        "templating": {"list": [_datasource(), _choice("bench", "Bench"), _choice("source", "Source")]},
        "panels": [
            {**panel, "id": number, "gridPos": place}
            for number, (panel, place) in enumerate(zip(_panels(), _places(_WIDTHS), strict=True), 1)
        ],
    }


_WIDTHS = ((6, 6, 6, 6), (12, 12), (12, 12), (12, 12), (12, 12), (24,))


def _panels() -> Sequence[dict[str, Any]]:
    return (
        _stat("Machines", f"count(bringup_run_started_seconds{{{_MINE}}})"),
        _stat("Last run did not pass", f'count(bringup_run_verdict{{{_MINE},verdict!="PASSED"}} == 1) or vector(0)', bad_from=1),
        _stat("On real hardware", f'count(bringup_run_started_seconds{{{_MINE},source="hardware",mode!="replay"}}) or vector(0)'),
        _stat("Oldest last run", f"max(time() - bringup_run_started_seconds{{{_MINE}}})", unit="s"),
        _table("Verdict of the last run", f"bringup_run_verdict{{{_MINE}}} == 1"),
        _table(
            "Failed cases by check and fault",
            f'sum by ({_MACHINE}, check, blame) (bringup_case{{{_MINE},outcome=~"failed|error"}})',
        ),
        _table("Firmware", f"bringup_run_info{{{_MINE}}}"),
        _bars("Age of the last run", f"time() - bringup_run_started_seconds{{{_MINE}}}", unit="s"),
        _lines("GPUs that the driver counts", _measured("gpu.count"), unit="short"),
        _lines("Slowest pair", f"min by ({_MACHINE}) ({_measured('p2p.bandwidth')})", unit="GBs"),
        _lines("Training, all GPUs", _measured("resnet50.total"), unit="none"),
        _lines("Slowest GPU alone", f"min by ({_MACHINE}) ({_measured('resnet50.solo-rate')})", unit="none"),
        _table("Nearest to a limit", f"bottomk(20, bringup_margin{{{_MINE}}})"),
    )


def _measured(name: str) -> str:
    return f'bringup_measurement{{{_MINE},name="{name}"}}'


def _places(rows: Sequence[Sequence[int]], height: int = 8) -> Sequence[Mapping[str, int]]:
    """Where each panel stands; the first row is half as high."""
    places, top = [], 0
    for row in rows:
        tall = height if top else height // 2
        places += [{"x": sum(row[:at]), "y": top, "w": width, "h": tall} for at, width in enumerate(row)]
        top += tall
    return places


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _choice(label: str, title: str) -> dict[str, Any]:
    return {
        "name": label,
        "label": title,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values(bringup_run_started_seconds, {label})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(kind: str, title: str, query: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "title": title, "datasource": _SOURCE, "targets": [{"refId": "A", "expr": query, **more}]}


def _stat(title: str, query: str, *, unit: str = "short", bad_from: float | None = None) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green" if bad_from is not None else "text", "value": None}]
    steps += [] if bad_from is None else [{"color": "red", "value": bad_from}]
    defaults = {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}}
    return {**_panel("stat", title, query, instant=True), "fieldConfig": {"defaults": defaults, "overrides": []}}


def _table(title: str, query: str) -> dict[str, Any]:
    """Samples as rows; what says nothing to a person is left out."""
    hidden = dict.fromkeys(("Time", "__name__", "instance", "job"), True)
    tidy = {"id": "organize", "options": {"excludeByName": hidden}}
    return {**_panel("table", title, query, instant=True, format="table"), "transformations": [tidy]}


def _lines(title: str, query: str, *, unit: str) -> dict[str, Any]:
    return {
        **_panel("timeseries", title, query, legendFormat="{{bench}} {{service_tag}} {{source}}"),
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
    }


def _bars(title: str, query: str, *, unit: str) -> dict[str, Any]:
    return {
        **_panel("bargauge", title, query, instant=True, legendFormat="{{bench}} {{service_tag}} {{source}}"),
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
    }
