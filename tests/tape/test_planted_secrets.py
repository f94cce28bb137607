"""Every kind of secret, in every way of writing it down, in every lane that a text can take: nothing of it is kept."""

import base64
import html
import json
from urllib.parse import quote

import pytest

from harness.tape.format import TapeInfo, write_tape
from harness.tape.redact import Redactor
from harness.tape.scan import check_tape

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7fJq0s1Yx9P\n3kQmB2zWcD8\n-----END RSA PRIVATE KEY-----"
KINDS = {
    "Password": "correct-horse-battery",
    "X-Auth-Token": "5d41402abc4b2a76b9719d911017c592",
    "Set-Cookie": "sessionid=38afes7a8w9fhq",
    "SNMP.1.AgentCommunity": "rack-seven-community",
    "Users.2.SHA256Password": "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
    "Users.2.SHA1v3Key": "A94A8FE5CCB19BA61C4C0873D391E987982FBBD3",
    "Users.2.IPMIKey": "C2A9F1E04D7788BB12",
    "PrivateKey": PEM,
    "LDAP.1.BindPassword": "p&ss<w>ord/with\"odd'chars",
    "ApiKey": "sk-live-0123456789abcdef",
}
WAYS = {
    "plain": str,
    "hex": lambda secret: secret.encode().hex(),
    "HEX with colons": lambda secret: secret.encode().hex(":").upper(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64, one byte on": lambda secret: base64.b64encode(b"x" + secret.encode() + b"y").decode(),
    "base64, two bytes on": lambda secret: base64.b64encode(b"xy" + secret.encode() + b"z").decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "percent": lambda secret: quote(secret, safe=""),
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret)[1:-1])[1:-1],
    "XML": html.escape,
    "Python": lambda secret: repr(secret)[1:-1],
}


def lane_json(redactor, text):
    return json.dumps(redactor.json({"Oem": [{"Log": [text, {"a": f"before {text} after"}]}], text: 1}))


def lane_text(redactor, text):
    return redactor.text(f"[    1.0] driver: said {text}, and went on")


def lane_header(redactor, text):
    return json.dumps(redactor.headers({"Location": f"/x/{text}", "ETag": text, "X-Other": text}))


def lane_stream(redactor, text):
    """A console that gives one byte at a time."""
    stream = redactor.stream()
    given = [piece for byte in f"root# {text}\r\nroot# ".encode() for piece in stream.feed(bytes([byte]))]
    return b"".join([*given, *stream.flush()]).decode("utf-8", "replace")


LANES = {"body": lane_json, "command": lane_text, "header": lane_header, "console": lane_stream}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_was_met_under_its_name_is_kept_nowhere_in_any_way_of_writing(kind, way):
    secret, redactor = KINDS[kind], Redactor()
    assert secret not in json.dumps(redactor.json({"Attributes": {kind: secret}}))
    written = WAYS[way](secret)
    core = written[4:-4]  # what depends on the secret alone, whatever stands around it
    for lane, through in LANES.items():
        kept = through(redactor, written)
        assert core not in kept, lane
        assert core not in kept.replace("\\\\", "\\"), lane


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("RSA ", "").replace("\n", "\r\n"),
        PEM.split("-----END", maxsplit=1)[0],
        "root:$6$Zs9vU1pW$Q0m3xZzP7gTqk1L0a8rB5yU2nC6dE4fG:19700:0:",
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyYWNrIn0",
        "curl -H 'authorization: basic cm9vdDpjYWx2aW4td2FzLWhlcmU='",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_though_nobody_named_it(text):
    secrets = [word for word in ("MIIEow", "Q0m3xZ", "eyJhbG", "cm9vdD", "3kQmB2zWcD8") if word in text]
    assert secrets
    redactor = Redactor()
    for kept in (redactor.text(f"it said {text}"), json.dumps(redactor.json({"Message": text}))):
        assert "<redacted>" in kept
        assert not [secret for secret in secrets if secret in kept]
        assert redactor.text(kept) == kept


@pytest.mark.parametrize("text", ["PasswordStatus: ok", "basic input output", "costs $6 or $60000000000000", "a digest of it"])
def test_words_that_only_sound_like_secrets_stay(text):
    assert Redactor().text(text) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_tape_that_holds_one_is_found_by_the_scan(tmp_path, kind):
    info = TapeInfo("b", "p", "model", "2026-12-01T00:00:00+00:00", "0.1.0", lanes=("bmc",))
    write_tape(tmp_path / "tape", info, {})
    assert check_tape(tmp_path / "tape") == []
    (tmp_path / "tape" / "session").mkdir()
    event = {"t": 0.0, "lane": "bmc", "op": "GET", "key": "/redfish/v1", "effect": "observe", "took": 0.1, "status": 200}
    line = json.dumps(event | {"body": {"Attributes": {kind: KINDS[kind]}}})
    (tmp_path / "tape" / "session" / "contact.jsonl").write_text(line + "\n")
    findings = check_tape(tmp_path / "tape")
    assert any("is not redacted" in finding or "looks like" in finding for finding in findings), findings
    assert not any(KINDS[kind] in finding for finding in findings)
