"""A fault of the virtual lab: one thing that is wrong, and the check that must catch it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import Blame


@dataclass(frozen=True)
class Fault:
    """One entry of the catalogue.

    ``caught_by`` is the id of the check that must fail first; None for a benign fault, which must fail nothing.
    ``consequences`` are the only other checks that may fail beside it. ``source`` says where the fault is known from.
    """

    id: str
    does: str
    caught_by: str | None
    source: str
    blame: Blame = Blame.PRODUCT
    consequences: tuple[str, ...] = ()

    @property
    def is_benign(self) -> bool:
        """True where no check may fail."""
        return self.caught_by is None
