"""Which names mark a secret: an exact list and a few endings, never a substring (``PasswordStatus`` is needed).

The Dell names are those of DellAttributes and Bios resources as recorded in NVIDIA/libredfish tests/mockups and of Dell's
attribute registry; a name counts by its last part (``Users.2.SHA256Password``, in server configuration profiles
``Users.2#SHA256Password``) and without case, dashes and underscores.
"""

from __future__ import annotations

import re

NAMED_BY = ("Name", "AttributeName")
"""Keys that hold a name, in a list of ``{"Name": "Users.2#Password", "Value": ...}``."""

VALUES = ("Value", "CurrentValue", "NewValue", "DefaultValue")
"""Keys that then hold its value."""

_EXACT = frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "ipmikey",
        "md5v3key",
        "sha1v3key",
        "sha256v3key",
        "xauthtoken",
        "authorization",
        "proxyauthorization",
        "cookie",
        "setcookie",
        "token",
        "accesstoken",
        "refreshtoken",
        "sessionkey",
        "secret",
        "clientsecret",
        "sharedsecret",
        "privatekey",
        "chapsecret",
        "revchapsecret",
        "agentcommunity",
        "community",
        "snmpcommunity",
        "trapcommunity",
        "encryptionkey",
        "authenticationkey",
        "apikey",
    }
)
_ENDINGS = ("password", "passwordsalt", "passphrase", "chapsecret", "communityname", "communitystring")
_STATES = frozenset({"", "enabled", "disabled", "true", "false", "yes", "no", "none", "null", "notapplicable"})
_COMMON = frozenset({"public", "private", "password", "secret", "default", "unknown", "admin", "administrator", "root", "basic"})
_LEARNED = 4


def is_secret_name(name: str) -> bool:
    """True where a string value under ``name`` is a secret."""
    plain = re.sub(r"[-_ ]", "", re.split(r"[.#]", name)[-1]).lower()
    return plain in _EXACT or plain.endswith(_ENDINGS)


def is_secret_value(value: str) -> bool:
    """False for the states that some settings with such a name have: ``StrongPassword`` is Enabled or Disabled."""
    return value.lower() not in _STATES


def is_worth_learning(value: str) -> bool:
    """True where a value is long and odd enough to be looked for everywhere: not a common word, a mask or a short number."""
    if len(value) < _LEARNED or len(set(value)) < _LEARNED - 1 or value.lower() in _COMMON or not is_secret_value(value):
        return False
    return any(each.isalpha() for each in value) or sum(each.isdigit() for each in value) >= 2 * _LEARNED
