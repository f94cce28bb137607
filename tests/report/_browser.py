"""A real browser looks at a page: screenshots, and what it measured of every text, in a window of a given size.

probe.html ── iframe (the page, its script switched off) ── sizes, places and contrasts ──▶ JSON in the dumped document
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)

_PROBE = """<!DOCTYPE html><meta charset="utf-8"><style>body{margin:0}iframe{border:0}</style>
<iframe id="page" width="%(width)d" height="%(height)d" sandbox="allow-same-origin" src="%(source)s"></iframe><pre id="found"></pre>
<script>
function parse(colour) {
  var found = colour.match(/[\\d.]+/g);
  return found ? found.map(Number) : [0, 0, 0, 0];
}
function luminance(rgb) {
  var linear = rgb.slice(0, 3).map(function (part) {
    part /= 255;
    return part <= 0.04045 ? part / 12.92 : Math.pow((part + 0.055) / 1.055, 2.4);
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}
function contrast(one, other) {
  var a = luminance(one), b = luminance(other);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
function ground(view, element) {
  if (element.namespaceURI.indexOf("svg") > 0) {
    var box = element.parentNode.querySelector(":scope > rect");
    if (box && element.tagName === "text") {
      var fill = view.getComputedStyle(box).fill;
      if (fill !== "none") return parse(fill);
    }
  }
  for (var each = element; each; each = each.parentElement) {
    var colour = parse(view.getComputedStyle(each).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.99) return colour;
  }
  return parse(view.getComputedStyle(view.document.documentElement).backgroundColor);
}
document.getElementById("page").addEventListener("load", function () {
  var view = this.contentWindow, inside = view.document, texts = [], wide = [];
  inside.querySelectorAll("details").forEach(function (each, at) { if (at < 4) each.open = true; });
  inside.querySelectorAll("body *").forEach(function (element) {
    if (["SCRIPT", "STYLE", "title"].indexOf(element.tagName) >= 0) return;
    var own = Array.prototype.filter.call(element.childNodes, function (node) {
      return node.nodeType === 3 && node.textContent.trim();
    });
    if (!own.length) return;
    var style = view.getComputedStyle(element), box = element.getBoundingClientRect();
    if (style.clipPath !== "none" || style.visibility === "hidden" || !box.width || !box.height) return;
    var svg = element.namespaceURI.indexOf("svg") > 0;
    if (svg && element.tagName !== "text") return;
    var drawing = element.ownerSVGElement;
    texts.push({ text: own.map(function (node) { return node.textContent.trim(); }).join(" ").slice(0, 2000), tag: element.tagName,
      css: element.getAttribute("class") || "", top: box.top, bottom: box.bottom, left: box.left, right: box.right,
      overflows: drawing ? box.right > drawing.getBoundingClientRect().right + 1 : false,
      contrast: contrast(parse(svg ? style.fill : style.color), ground(view, element)), size: parseFloat(style.fontSize) });
  });
  document.getElementById("found").textContent = JSON.stringify({ width: inside.documentElement.scrollWidth,
    height: inside.documentElement.scrollHeight, buttons: inside.querySelectorAll("button").length,
    ground: view.getComputedStyle(inside.body).backgroundColor, texts: texts });
});
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What the browser measured: the document's size in pixels, and every text with its place, size and contrast."""

    width: int
    height: int
    buttons: int
    ground: str
    texts: list[dict[str, Any]]

    def within(self, height: int) -> str:
        """All texts that end above ``height``, top to bottom."""
        return "\n".join(text["text"] for text in sorted(self.texts, key=lambda text: text["top"]) if text["bottom"] <= height)


def look(page: Path, folder: Path, *, width: int, height: int, dark: bool = False) -> Seen:
    """Measure ``page`` in a window of that size, its script switched off."""
    probe = folder / f"probe-{width}-{dark}.html"
    probe.write_text(_PROBE % {"width": width, "height": height, "source": page.as_uri()}, encoding="utf-8")
    options = [
        "--allow-file-access-from-files",
        "--disable-web-security",
        "--virtual-time-budget=20000",
        f"--window-size={max(width, 1400)},{height}",
    ]
    dumped = _chromium(folder, *options, *_scheme(dark=dark), "--dump-dom", probe.as_uri())
    found = re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
    assert found, dumped[:2000]
    assert found[1], "the browser measured nothing"
    return Seen(**json.loads(unescape(found[1])))


def shoot(page: Path, target: Path, *, width: int, height: int, dark: bool = False) -> None:
    """A screenshot."""
    size = (f"--window-size={width},{height}", "--hide-scrollbars", "--force-device-scale-factor=1")
    _chromium(target.parent, *size, *_scheme(dark=dark), f"--screenshot={target}", page.as_uri())


def to_paper(page: Path, target: Path) -> None:
    """The page as a printer gets it."""
    _chromium(target.parent, "--no-pdf-header-footer", f"--print-to-pdf={target}", page.as_uri())


def _scheme(*, dark: bool) -> list[str]:
    return [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]


def _chromium(folder: Path, *arguments: str) -> str:
    assert CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
