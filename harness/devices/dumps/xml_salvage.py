"""XML as far as it goes: of a document that was cut off or damaged, everything before that place.

    <nvidia_smi_log> <gpu id="A"> ... </gpu> <gpu id="B"> <pci> ... (cut)
        the tree up to here, B without what is missing, and which tags were open: nvidia_smi_log > gpu B > pci

A value whose end is missing is left out, never told in part.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from harness.errors import UsageMistake

_DEEPEST = 100
"""Levels; a topology of many switches has a third of that."""
_NAMES = ("id", "pci_busid", "busid", "name")


@dataclass(frozen=True)
class Salvaged:
    """What a text of XML holds: ``root`` is None where not even its first tag is whole; ``cut`` says where it ends, "" if whole."""

    root: Element | None
    cut: str = ""


def read_xml(name: str, text: str) -> Salvaged:
    """Read a document, or what is there of one. Raises UsageMistake for entities of its own and for bottomless nesting."""
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise UsageMistake(f"{name}: the XML in it defines its own entities, which no tool of ours writes")
    tree = _Tree(name)
    try:
        XMLParser(target=tree).feed(text)  # noqa: S314 - the document can define no entities, and its depth is bounded
    except ParseError as error:
        return Salvaged(tree.root, f"damaged: {error}")
    if tree.root is None:
        return Salvaged(None, "cut off in its first tag")
    return Salvaged(tree.root, f"cut off inside {' > '.join(map(_shown, tree.open))}" if tree.open else "")


class _Tree(TreeBuilder):
    """The tree while its tags come in."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.root: Element | None = None
        self.open: list[Element] = []

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        """A tag that opens."""
        element = super().start(tag, attrs)
        if self.root is None:
            self.root = element
        self.open.append(element)
        if len(self.open) > _DEEPEST:
            raise UsageMistake(f"{self._name}: the XML in it is nested more than {_DEEPEST} levels deep: no tool writes that")
        return element

    def end(self, tag: str, /) -> Element:
        """A tag that closes."""
        self.open.pop()
        return super().end(tag)


def _shown(element: Element) -> str:
    """A tag with what tells it from its like."""
    told = next((value for key in _NAMES if (value := element.get(key, ""))), "")
    return f"{element.tag} {told[:40]}".strip()
