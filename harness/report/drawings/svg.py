"""SVG as text: every attribute and every text is escaped, whoever said it."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from harness.report.text import clip, printable

_TEXT = 200


def element(name: str, *inside: Markup, **attributes: object) -> Markup:
    """One element. ``class_`` becomes class, ``stroke_width`` stroke-width; None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"' for key, value in attributes.items() if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(inside)}</{name}>")  # noqa: S704 - all of it is escaped above or Markup already


def text(words: str, x: float, y: float, **attributes: object) -> Markup:
    """A line of text with its baseline at ``y``."""
    return element("text", escape(clip(printable(words), _TEXT)), x=x, y=y, **attributes)


def title(words: str) -> Markup:
    """What a pointer that rests there is told, and a screen reader."""
    return element("title", escape(clip(printable(words), _TEXT)))


def picture(width: float, height: float, label: str, parts: Iterable[Markup], *, css: str = "") -> Markup:
    """The drawing itself; it is as wide as it needs at most and shrinks with the page."""
    return element(
        "svg",
        *parts,
        class_=f"drawing {css}".rstrip(),
        viewBox=f"0 0 {width:g} {height:g}",
        style=f"max-width:{width:g}px",
        role="img",
        aria_label=label,
    )


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else printable(str(value))
