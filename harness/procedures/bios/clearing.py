"""Clear pending values: one request takes all of them away, so it is sent only after a last look that all are those we know."""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.idrac import Idrac
from harness.errors import OwnershipError
from harness.limits import Value
from harness.procedures.bios.preflight import foreign_values


def clear_only(idrac: Idrac, known: Mapping[str, Value | None], *, expected_tag: str) -> None:
    """Clear what is pending if nothing but ``known`` is. Raises OwnershipError for what somebody has staged meanwhile.

    The look is the last request before the one that clears; an iDRAC offers no way to make them one.
    """
    idrac.insist_on(expected_tag)
    pending = idrac.bios().pending
    if added := foreign_values(pending, known):
        names = ", ".join(sorted(added))
        raise OwnershipError(f"somebody staged {names} meanwhile, and clearing takes all pending values away; nothing was cleared")
    if pending:
        idrac.clear_pending()
