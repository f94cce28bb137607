"""Renderings for other programs, each a pure function from a record to text: CSV, Markdown, Prometheus, OCP."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.errors import UsageMistake
from harness.record.entries import Record


def render_as(name: str) -> Callable[[Record], str]:
    """The renderer of a format. Raises KeyError for a name that NAMES does not list.

    That of ``qualification`` raises UsageMistake, with the reasons, for a run that is none.
    """
    return _RENDERERS[name]()


def _html() -> Callable[[Record], str]:
    from harness.report.page import render_html

    return render_html


def _junit() -> Callable[[Record], str]:
    from harness.report.junit import render_junit

    return render_junit


def _csv() -> Callable[[Record], str]:
    from harness.report.formats.rows import render_csv

    return render_csv


def _markdown() -> Callable[[Record], str]:
    from harness.report.formats.markdown import render_markdown

    return render_markdown


def _prometheus() -> Callable[[Record], str]:
    from harness.report.formats.prometheus import render_prometheus

    return render_prometheus


def _ocp() -> Callable[[Record], str]:
    from harness.report.formats.ocp import render_ocp

    return render_ocp


def _qualification() -> Callable[[Record], str]:
    from harness.record.qualification import objections, qualification_text

    def render(record: Record) -> str:
        if told := objections(record):
            raise UsageMistake(f"{record.path}: this run is no qualification: {'; '.join(told)}")
        return qualification_text(record)

    return render


_RENDERERS: Mapping[str, Callable[[], Callable[[Record], str]]] = {
    "html": _html,
    "junit": _junit,
    "ocp": _ocp,
    "prometheus": _prometheus,
    "csv": _csv,
    "md": _markdown,
    "qualification": _qualification,
}

NAMES = tuple(_RENDERERS)
"""What ``bringup report --format`` takes."""
