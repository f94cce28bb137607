"""The actions of the server configuration profile as a manager announces them. They are announced, not carried out."""

from __future__ import annotations

from harness.lab.idrac import names
from harness.lab.idrac.profile import Profile

_NAMES = ("ExportSystemConfiguration", "ImportSystemConfiguration", "ImportSystemConfigurationPreview")


def actions(profile: Profile) -> dict[str, object]:
    """Key and target of each action: both differ between generations, so a client takes them from here."""
    base = f"{names.MANAGER}/Actions/Oem/{profile.scp_target}"
    return {f"{profile.scp_actions}.{name}": {"target": f"{base}.{name}"} for name in _NAMES}
