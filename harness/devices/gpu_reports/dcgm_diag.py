"""``dcgmi diag -j``: tests by category, each with a status by GPU.

    {"DCGM Diagnostic": {"test_categories": [{"category", "tests": [{"name", "results": [
        {"entity_group", "entity_id", "status", "warnings": [{"warning", "error_id"}]}]}]}]}}

Older versions say ``DCGM GPU Diagnostic`` and ``gpu_ids`` (NVIDIA/DCGM: dcgm_diag_schema.json and its own samples). A skipped test
is told as such: DCGM leaves most out on cards that are not for data centres, and a skip is no pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.devices.gpu_reports.documents import mapping, mappings, objects
from harness.devices.gpu_reports.facts import Check, HostRate, Reading, Status, Tool, plural

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_STATUS = {"pass": Status.PASS, "fail": Status.FAIL, "warn": Status.WARN, "skip": Status.SKIP, "not run": Status.SKIP}
_RATE = re.compile(r"GPU (\d{1,3}) (GPU to Host|Host to GPU) bandwidth:(?:\\t|\s){1,8}(\d{1,5}(?:\.\d{1,5})?) GB/s")
"""What the pcie test says beside its status; tabs stand in JSON as two letters."""


def looks_like(text: str) -> bool:
    """True where the text holds a diagnostic's JSON."""
    return any(f'"{root}"' in text for root in _ROOTS)


def parse(text: str, source: str) -> Reading:
    """Read every result of every test."""
    checks: list[Check] = []
    rates = tuple(HostRate(int(gpu), way == "Host to GPU", float(rate)) for gpu, way, rate in _RATE.findall(text))
    for found in objects(text, *_ROOTS, "entity_groups", "metadata"):
        for root in _ROOTS:
            checks += _checks(mapping(found.get(root)))
    failed = sum(check.status is Status.FAIL for check in checks)
    skipped = sum(check.status is Status.SKIP for check in checks)
    summary = f"{plural(len(checks), 'result')}: {failed} failed, {skipped} skipped" if checks else ""
    return Reading(Tool.DCGM_DIAG, source, summary, checks=tuple(checks), host_rates=rates if checks else ())


def _checks(document: Mapping[str, Any]) -> Iterator[Check]:
    error = document.get("runtime_error")
    if isinstance(error, str) and error:
        yield Check("diag", "start", "", Status.FAIL, error)
    for category in mappings(document.get("test_categories")):
        for test in mappings(category.get("tests")):
            for result in mappings(test.get("results")):
                status = _STATUS.get(str(result.get("status", "")).strip().lower(), Status.OTHER)
                yield Check(str(category.get("category", "")), str(test.get("name", "")), _part(result), status, _words(result))


def _part(result: Mapping[str, Any]) -> str:
    if "gpu_ids" in result:
        return f"GPU {result['gpu_ids']}"
    return f"{result.get('entity_group', 'GPU')} {result.get('entity_id', '?')}"


def _words(result: Mapping[str, Any]) -> str:
    warnings = mappings(result.get("warnings"))
    return "; ".join(f"{each.get('warning', '')} (error {each.get('error_id', '?')})" for each in warnings)
