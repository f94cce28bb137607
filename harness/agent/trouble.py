"""The one way a worker says that it cannot do its work."""

from typing import Any, Dict


class Trouble(Exception):
    """Foreseen trouble: ``what`` cannot be done, ``why``, and what a person can ``do`` about it."""

    def __init__(self, what: str, why: str, do: str = "") -> None:
        super().__init__("{}: {}{}".format(what, why, "; " + do if do else ""))
        self.what = what
        self.why = why
        self.do = do

    def line(self) -> Dict[str, Any]:
        """The trouble as an output line."""
        return {"kind": "error", "what": self.what, "why": self.why, "do": self.do}
