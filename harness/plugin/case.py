"""A case: one check for one slot, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.plugin.measuring import Measure


@dataclass
class Case:
    """One test for one slot or uplink, and what became of it.

    ``parts`` are the slots it stands for: one, those behind an uplink, or none; ``has_nothing`` means that the platform lacks
    what the check judges. ``outcome`` is empty until there is one. ``attachments`` are paths below the run's folder,
    ``waiver`` says who answers for it (see harness.plugin.waiving), ``is_the_products_alone`` whether a failed case failed by
    nobody else's fault, afterwards either.
    """

    check: str
    stage: str
    title: str
    param: str = ""
    parts: tuple[str, ...] = ()
    has_nothing: bool = False
    is_vital: bool = False
    is_presence: bool = False
    outcome: str = ""
    blame: str = ""
    message: str = ""
    information: bool = False
    began: float = 0.0
    measure: Measure | None = None
    attachments: tuple[str, ...] = ()
    waiver: Mapping[str, str] | None = None
    is_the_products_alone: bool = False

    @property
    def id(self) -> str:
        """The case's name in every output."""
        return f"{self.check}[{self.param}]" if self.param else self.check

    @property
    def slot(self) -> str | None:
        """The slot it is about, if it is about one."""
        return self.parts[0] if len(self.parts) == 1 else None

    @property
    def failed(self) -> bool:
        """True where the case failed or broke."""
        return self.outcome in ("failed", "error")

    @property
    def has_fallen_short(self) -> bool:
        """True where it failed or broke, whether or not somebody answers for it."""
        return self.failed or self.waiver is not None

    def fail(self, blame: str, message: str) -> None:
        """Take the first failure as the case's own; a later one only adds to its message."""
        self.is_the_products_alone = blame == "product" and (self.is_the_products_alone or not self.failed)
        if self.failed:
            self.message = f"{self.message}\nafterwards ({blame}): {message}"
        else:
            self.outcome = "failed" if blame == "product" else "error"
            self.blame, self.message = blame, message

    def settle(self, outcome: str, message: str = "") -> None:
        """Take an outcome unless there is a failure already."""
        if not self.failed:
            self.outcome, self.message = outcome, message
