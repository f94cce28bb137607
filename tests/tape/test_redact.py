import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.secret import Secret
from harness.tape.redact import Redactor

R = "<redacted>"
PASSWORD = 'mo"del/lab-only 7&ü'
PLAIN = "model-lab-only"


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "Password",
            "SysPassword",
            "SHA256SetupPassword",
            "SHA256SetupPasswordSalt",
            "Users.2.SHA256Password",
            "Users.2.SHA256PasswordSalt",
            "Users.2.IPMIKey",
            "Users.2.MD5v3Key",
            "Users.2.SHA1v3Key",
            "Users.2#Password",
            "Users.2.SNMPv3AuthenticationPassphrase",
            "SNMP.1.AgentCommunity",
            "IPMILan.1.CommunityName",
            "IscsiDev1Con1RevChapSecret",
            "X-Auth-Token",
            "proxy_password",
            "USB.1.ZipPassword",
        ],
    )
    def test_a_value_under_a_secret_name_is_redacted(self, name):
        assert Redactor().json({"Attributes": {name: "8a7f3c21"}}) == {"Attributes": {name: R}}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("PasswordStatus", "Unlocked"),
            ("PasswordName", "SetupPassword"),
            ("Security.1.PasswordMinimumLength", "8"),
            ("Security.1.PasswordRequireRegex", "^.*$"),
            ("IncludePasswordHashValues", "Yes please"),
            ("SerialComm", "OnConRedir"),
            ("SubNumaCluster", "Disabled"),
            ("StrongPassword", "Enabled"),
            ("Users.2.EnableSNMPv3Passphrase", "Disabled"),
            ("SecureDefaultPassword.1.ForceChangePassword", "False"),
            ("SystemMeVersion", "4.1.4.339"),
            ("Key", "GET /redfish/v1"),
            ("target", "/redfish/v1/Systems/System.Embedded.1/Bios/Actions/Bios.ChangePassword"),
        ],
    )
    def test_what_a_bringup_needs_survives(self, name, value):
        assert Redactor().json({name: value}) == {name: value}

    def test_only_texts_are_secrets(self):
        body = {"Password": None, "Nested": {"Password": 12, "SysPassword": True, "SetupPassword": ""}}
        assert Redactor().json(body) == body

    def test_an_action_named_for_a_password_keeps_its_target(self):
        body = {"Actions": {"#Bios.ChangePassword": {"target": "/x/Bios.ChangePassword", "title": "change it"}}}
        assert Redactor().json(body) == body

    def test_lists_and_depth_do_not_matter(self):
        body = [{"Accounts": [{"Password": ["one-secret", ["two-secret"]]}, {"UserName": "bringup"}]}]
        assert Redactor().json(body) == [{"Accounts": [{"Password": [R, [R]]}, {"UserName": "bringup"}]}]

    @pytest.mark.parametrize("key", ["Name", "AttributeName"])
    @pytest.mark.parametrize("value", ["Value", "CurrentValue", "DefaultValue"])
    def test_a_list_of_names_and_values_is_read_as_such(self, key, value):
        body = [{key: "Users.2#Password", value: "hunter22"}, {key: "Users.2#UserName", value: "bringup"}]
        assert Redactor().json(body) == [{key: "Users.2#Password", value: R}, {key: "Users.2#UserName", value: "bringup"}]

    @pytest.mark.parametrize(
        ("text", "clean"),
        [
            ('{"kind":"x","Password" : "hunter22"}\n{"n":1}', '{"kind":"x","Password" : "<redacted>"}\n{"n":1}'),
            (
                '<Attribute Name="Users.2#Password">hunter22</Attribute>',
                '<Attribute Name="Users.2#Password"><redacted></Attribute>',
            ),
            ("Users.2.Password=hunter22\r\nPasswordStatus=ok", "Users.2.Password=<redacted>\r\nPasswordStatus=ok"),
            ("X-Auth-Token: 0a1b2c\nServer: x", "X-Auth-Token: <redacted>\nServer: x"),
            ("Authorization: Basic YTpi", "Authorization: <redacted>"),
            ("Password: \r\nLast login: today", "Password: \r\nLast login: today"),
            ("[    1.0] Key type asymmetric registered", "[    1.0] Key type asymmetric registered"),
        ],
    )
    def test_texts_that_name_their_values_are_redacted(self, text, clean):
        assert Redactor().text(text) == clean

    def test_headers_are_kept_by_an_allow_list(self):
        headers = {"Content-Type": "application/json", "X-Auth-Token": "t", "Set-Cookie": "s", "Location": f"/jobs/{PLAIN}"}
        assert Redactor([PLAIN]).headers(headers) == {"content-type": "application/json", "location": f"/jobs/{R}"}


class TestLiterals:
    @pytest.mark.parametrize("secret", [PASSWORD, PLAIN, "calvin", "aaaa"])
    @pytest.mark.parametrize("offset", [0, 1, 2])
    def test_every_way_of_writing_it_is_found(self, secret, offset):
        redactor = Redactor([Secret(secret)])
        utf8 = secret.encode()
        around = b"user"[: offset + 1] + b":" + utf8 + b"\x00tail"
        written = [
            secret,
            utf8.hex(),
            utf8.hex().upper(),
            utf8.hex(":"),
            utf8.hex(":").upper(),
            quote(secret, safe=""),
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            json.dumps(json.dumps({"p": secret}))[1:-1],
            base64.b64encode(utf8).decode(),
            base64.b64encode(around).decode(),
            base64.urlsafe_b64encode(around).decode(),
        ]
        for text in written:
            clean = redactor.text(f"before {text} after")
            assert R in clean, text
            assert secret not in clean
            left_over = clean.removeprefix("before ").removesuffix(" after").replace(R, "")
            assert len(left_over) <= len(text) - len(secret), "what is left is what stood around it"

    def test_it_is_found_in_names_too(self):
        assert Redactor([PLAIN]).json({f"user {PLAIN}": 1}) == {f"user {R}": 1}

    def test_a_learned_value_is_found_everywhere_from_then_on(self):
        redactor = Redactor()
        body = [{"note": "the key is 0badc0ffee11"}, {"Users.2.IPMIKey": "0badc0ffee11"}]
        assert redactor.json(body) == [{"note": f"the key is {R}"}, {"Users.2.IPMIKey": R}]
        assert redactor.text("again 0badc0ffee11") == f"again {R}"
        assert redactor.text('a text that says "password": "abc\\u0064efg"') == f'a text that says "password": "{R}"'
        assert redactor.text("abcdefg") == R

    @pytest.mark.parametrize("value", ["Enabled", "public", "1234", "abc", "********", "None", "0" * 40])
    def test_common_words_masks_and_short_numbers_are_not_learned(self, value):
        redactor = Redactor()
        redactor.json({"Password": value})
        assert redactor.text(f"say {value}") == f"say {value}"

    def test_what_is_learned_from_an_authorization_header_is_the_token(self):
        redactor = Redactor()
        redactor.text("Authorization: Bearer eyJhbGciOi")
        assert redactor.text("Bearer of news, eyJhbGciOi") == f"Bearer of news, {R}"

    def test_the_empty_secret_changes_nothing(self):
        assert Redactor([""]).text("abc") == "abc"

    def test_a_secret_that_is_part_of_the_mark_is_redacted_once(self):
        redactor = Redactor(["redacted"])
        assert redactor.text("redacted <redacted>") == f"{R} {R}"

    @settings(max_examples=150, deadline=None)
    @given(
        st.recursive(
            st.text(max_size=12) | st.sampled_from([PLAIN, f"x{PLAIN}y", "calvin", R, "Enabled"]) | st.integers() | st.none(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["Password", "Name", "Value", "a.IPMIKey", PLAIN, "PasswordStatus"]), inner, max_size=4
                )
            ),
            max_leaves=12,
        )
    )
    def test_redacting_twice_changes_nothing_and_leaves_no_literal(self, body):
        redactor = Redactor([PLAIN])
        once = redactor.json(body)
        assert redactor.json(once) == once
        assert Redactor([PLAIN]).json(body) == once
        assert PLAIN not in json.dumps(once)


class TestStreams:
    TEXT = f"login: root\r\npassword {PLAIN}!\r\n# mo model-lab-on model-{PLAIN}{PLAIN} end mo".encode()
    CLEAN = f"login: root\r\npassword {R}!\r\n# mo model-lab-on model-{R}{R} end mo".encode()

    def filtered(self, pieces, **options):
        stream = Redactor([PLAIN]).stream(**options)
        out = [each for piece in pieces for each in stream.feed(piece)]
        return [*out, *stream.flush()]

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 13, 1000])
    def test_a_secret_is_found_however_the_reads_cut_it(self, size):
        pieces = [self.TEXT[start : start + size] for start in range(0, len(self.TEXT), size)]
        assert b"".join(self.filtered(pieces)) == self.CLEAN

    def test_one_piece_comes_back_for_each_that_was_fed(self):
        assert self.filtered([b"a", b"mod", b"el-", b"lab-only", b"z"]) == [b"a", R.encode(), b"", b"", b"z"]

    def test_every_piece_may_be_marked(self):
        assert self.filtered([b"mod", b"el-lab-only\r"], mark_every_piece=True) == [R.encode(), R.encode() + b"\r"]

    def test_a_piece_is_held_back_only_while_it_may_become_a_secret(self):
        stream = Redactor([PLAIN]).stream()
        assert stream.feed(b"# ") == [b"# "]
        assert stream.feed(b"mod") == []
        assert stream.shown() == R.encode()
        assert stream.feed(b"prose!") == [b"mod", b"prose!"]

    def test_a_terminal_that_breaks_the_line_hides_nothing(self):
        for end in (b"\r\n", b"\n", b" \r", b" \r\n"):
            assert b"".join(self.filtered([b"x model-", b"lab" + end, b"-only y"])) == f"x {R} y".encode(), end

    def test_hex_and_base64_are_found_on_streams(self):
        for coded in (PLAIN.encode().hex(), PLAIN.encode().hex(":").upper(), base64.b64encode(PLAIN.encode()).decode().rstrip("=")):
            joined = b"".join(self.filtered([bytes([each]) for each in f"<{coded}>".encode()]))
            assert joined.startswith(f"<{R}".encode())
            assert len(joined) <= len(R) + 3

    def test_bytes_that_are_no_text_pass(self):
        data = bytes(range(256))
        assert b"".join(self.filtered([data[:100], data[100:]])) == data

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(st.sampled_from(["abcd", "abcdef", "bcda", "ab", "cd", "x", "fabc", R]), max_size=12).map("".join),
        st.lists(st.integers(1, 5), min_size=1, max_size=40),
    )
    def test_a_stream_is_redacted_as_the_whole_text_would_be(self, text, sizes):
        redactor = Redactor(["abcd", "abcdef", "bcda"])
        stream, out, rest = redactor.stream(), [], text.encode()
        for size in sizes:
            out += stream.feed(rest[:size])
            rest = rest[size:]
        out += stream.feed(rest)
        assert b"".join([*out, *stream.flush()]).decode() == redactor.text(text)


@pytest.mark.skipif("BRINGUP_FIELD_DATA" not in os.environ, reason="needs the recorded public data (BRINGUP_FIELD_DATA)")
def test_recorded_idrac_resources_keep_all_but_their_secrets():
    """Every string that changes stands under a name that marks a secret, and holds a value, in all recorded resources."""
    changed = set()

    def compare(before, after, name):
        if isinstance(before, dict):
            for key, each in before.items():
                compare(each, after[key], key)
        elif isinstance(before, list):
            for each, other in zip(before, after, strict=True):
                compare(each, other, name)
        elif before != after:
            changed.add(name.split(".")[-1])

    files = [file for file in sorted(Path(os.environ["BRINGUP_FIELD_DATA"], "idrac").rglob("*.json")) if file.is_file()]
    assert files
    for file in files:
        try:
            body = json.loads(file.read_text(encoding="utf-8-sig"))
        except (json.JSONDecodeError, UnicodeDecodeError):
            continue
        compare(body, Redactor().json(body), "")
    assert changed
    assert changed <= {
        "Password",
        "SHA256Password",
        "SHA256PasswordSalt",
        "IPMIKey",
        "MD5v3Key",
        "SHA1v3Key",
        "SHA256SystemPassword",
        "SHA256SystemPasswordSalt",
        "SHA256SetupPassword",
        "SHA256SetupPasswordSalt",
        "SysPassword",
        "SetupPassword",
        "AgentCommunity",
        "CommunityName",
        "EncryptionKey",
        "SNMPv3AuthenticationPassphrase",
        "SNMPv3PrivacyPassphrase",
        "BindPassword",
        "SMTPPassword",
        "ProxyPassword",
        "DefaultPassword",
        "HostOSProxyPassword",
        "ZipPassword",
        "UserProxyPassword",
    }, changed
