"""A secret that passes through a run, in whatever shape, is found nowhere afterwards."""

import base64
import subprocess
import sys
import tarfile

import pytest

from harness import locator

KNOWN = "correct-horse-battery"
LISTED = "listed-secret-staple"
OTHERS = (
    "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
    "rack-seven-community",
    "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7fJq0s1Yx9P\n3kQmB2zWcD8\n-----END PRIVATE KEY-----",
    "sessionid=38afes7a8w9fhq",
)
"""A user's password hash, an SNMP community, a private key, a session's cookie."""

LEAKY = f"""
import base64
from dataclasses import replace
import harness.lab.model.lanes as lanes
from harness.lab.model import parts
from harness.ports import Chunk

parts.BMC_PASSWORD = known = {KNOWN!r}
listed = {LISTED!r}
HASH, COMMUNITY, KEY, COOKIE = {OTHERS!r}
original = lanes.open_model

class LeakyHttp:
    def __init__(self, port): self.port = port
    def close(self): self.port.close()
    def ask(self, question, on_line=None):
        answer = self.port.ask(question, on_line)
        if not isinstance(answer.body, dict): return answer
        leaks = {{
            "Password": listed, "PasswordStatus": "kept-as-it-is", "Nested": {{"List": [{{"X-Auth-Token": listed}}, known, [known]]}},
            "Text": f"before {{known}} after", "Hex": known.encode().hex(), "Hex2": listed.encode().hex().upper(),
            "Base": base64.b64encode(known.encode()).decode(), "Base2": base64.b64encode(b"x" + known.encode()).decode(),
            "Base3": base64.b64encode(b"xy" + listed.encode() + b"zz").decode(), known: "as a key",
            "Attributes": {{"Users.2.SHA256Password": HASH, "SNMP.1.AgentCommunity": COMMUNITY}}, "Key": {{"PrivateKey": KEY}},
            "Message": f"{{HASH}} {{COMMUNITY}} {{KEY}} {{COOKIE}}", "Cookie": COOKIE,
        }}
        return replace(answer, headers=dict(answer.headers) | {{"x-secret": known, "etag": known}}, body=answer.body | {{"Leaks": leaks}})

class LeakyConsole:
    def __init__(self, port):
        shown = f"password {{known}} and {{listed}} {{HASH}} {{COMMUNITY}} {{COOKIE}} " + KEY.replace(chr(10), chr(13) + chr(10))
        self.port, self.rest = port, [bytes([byte]) for byte in shown.encode()]
    def close(self): self.port.close()
    def write(self, data): self.port.write(data)
    def read(self, deadline):
        if self.rest:
            return Chunk(self.rest.pop(0), 0.0)
        return self.port.read(deadline)

class LeakyHost:
    def __init__(self, port): self.port = port
    def close(self): self.port.close()
    def ask(self, question, on_line=None):
        answer = self.port.ask(question, on_line)
        everything = f"{{known}} {{listed}} {{HASH}} {{COMMUNITY}} {{KEY}} {{COOKIE}}"
        return replace(answer, stderr=everything) if question.key == "uname -r" else answer

def leaky(*arguments, **keywords):
    opened = original(*arguments, **keywords, password=known) if "password" not in keywords else original(*arguments, **keywords)
    leaking = {{"bmc": LeakyHttp(opened.bmc), "console": LeakyConsole(opened.console), "host": LeakyHost(opened.host)}}
    return replace(opened, fabric=LeakyHttp(opened.fabric), **leaking)

lanes.open_model = leaky
"""
CHECKS = f"""
import pytest

@pytest.mark.check("bmc.shows-what-it-read")
def test_a_failure_shows_what_it_read(bmc):
    body = bmc.redfish.get("/redfish/v1/Systems/System.Embedded.1")
    print("printed", body)
    assert body == {{}}, f"body {{body}} with {KNOWN}"

@pytest.mark.check("bmc.breaks-with-what-it-read")
def test_a_crash_shows_what_it_read(bmc):
    secret = bmc.redfish.get("/redfish/v1/Systems/System.Embedded.1")["Leaks"]["Password"]
    raise RuntimeError(f"cannot use {{secret}}")

@pytest.mark.check("bmc.measures-what-it-read")
def test_a_measurement_holds_what_it_read(bmc, measure):
    measure("secret", bmc.redfish.get("/redfish/v1/Systems/System.Embedded.1")["Leaks"]["Text"])
"""
SHAPES = [
    shape
    for secret in (KNOWN, LISTED, *OTHERS[:2], *OTHERS[2].split("\n")[1:3], OTHERS[3])
    for shape in (
        secret,
        secret.encode().hex(),
        secret.encode().hex().upper(),
        base64.b64encode(secret.encode()).decode().rstrip("=")[:-1],
        base64.b64encode(b"x" + secret.encode()).decode()[2:].rstrip("=")[:-1],
        base64.b64encode(b"xy" + secret.encode()).decode()[3:].rstrip("=")[:-1],
    )
]


def found_in(folder):
    return [
        (str(file.relative_to(folder)), shape)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix not in (".py", ".pyc")
        for shape in SHAPES
        if shape in opened(file)
    ]


def opened(file):
    """The text of a file; of an archive, that of all its members."""
    if not tarfile.is_tarfile(file):
        return file.read_text(errors="replace")
    with tarfile.open(file) as archive:
        members = [archive.extractfile(member) for member in archive.getmembers() if member.isfile()]
        return "".join(member.read().decode(errors="replace") for member in members)


def test_a_recording_and_its_reports_hold_no_secret(bringup, tmp_path):
    done = bringup("run", "--bench", "model-lqd8360", "--record", prelude=LEAKY, folder=tmp_path)
    assert done.status == 0, done.out + done.err
    tape = tmp_path / "fixtures" / "tapes" / "model-lqd8360"
    assert (tape / "tape.toml").is_file()
    assert "kept-as-it-is" in "".join(file.read_text() for file in tape.rglob("*") if file.is_file())
    assert bringup("bundle", "latest", folder=tmp_path).status == 0
    assert any(tarfile.is_tarfile(file) for file in tmp_path.rglob("*") if file.is_file())
    assert found_in(tmp_path) == []
    assert not [shape for shape in SHAPES if shape in done.out + done.err]
    again = bringup("run", "--bench", "model-lqd8360", "--replay", folder=tmp_path)
    assert again.status == 0, again.out + again.err


@pytest.mark.parametrize("route", ["bringup", "pytest"])
def test_failures_that_show_what_they_read_hold_no_secret(bringup, tmp_path, clean_environment, route):
    (tmp_path / "test_leaks.py").write_text(CHECKS)
    if route == "bringup":
        done = bringup(
            "run",
            "--bench",
            "model-lqd8360",
            "--live",
            "--suite",
            "test_leaks.py",
            "--stage",
            "bmc",
            prelude=LEAKY,
            folder=tmp_path,
        )
        out, status = done.out + done.err, done.status
    else:
        (tmp_path / "leaky_lanes.py").write_text(LEAKY)
        pytested = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "leaky_lanes", str(locator.suites() / "bmc"), "test_leaks.py"),
                *("-c", str(locator.suites() / "pytest.toml"), "--junitxml=theirs.xml", "-l"),
                *("--bringup-bench", "model-lqd8360", "--bringup-live", "--bringup-apply"),
            ],
            cwd=tmp_path,
            env=clean_environment | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        out, status = pytested.stdout + pytested.stderr, pytested.returncode
        assert (tmp_path / "theirs.xml").stat().st_size > 1000
    assert status not in (0, 2), out
    assert found_in(tmp_path) == []
    assert not [shape for shape in SHAPES if shape in out], out
