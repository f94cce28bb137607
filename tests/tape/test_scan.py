import json

import pytest

from harness.ports import Effect
from harness.tape.events import CommandReply, Exchange, HttpReply, Traffic
from harness.tape.format import write_tape
from harness.tape.redact import Redactor
from harness.tape.scan import check_tape, summarise

TRACK = "session/bios"
BIG = [{"n": number} for number in range(400)]


def get(body, key="/x", headers=None):
    return Exchange(1.0, "bmc", "GET", key, Effect.OBSERVE, None, 0.5, HttpReply(200, headers or {}, body))


@pytest.fixture
def tape(tmp_path, info):
    """Write a tape with one track."""

    def write(*events, lanes=("bmc", "host", "console"), track=TRACK):
        from dataclasses import replace

        folder = tmp_path / "tape"
        write_tape(folder, replace(info, lanes=lanes), {track: events})
        return folder

    return write


GOOD = (
    get({"PasswordStatus": "Unlocked", "SetupPassword": "<redacted>", "Users.2.IPMIKey": "<redacted>"}),
    get(BIG),
    Exchange(2.0, "bmc", "POST", "/reset", Effect.ACT, {"ResetType": "On"}, 0.1, HttpReply(204, {}, None)),
    Exchange(3.0, "host", "run", "agent pci", Effect.OBSERVE, None, 9.0, CommandReply(0, "x\n" * 2000, "Token: <redacted>\n")),
    Traffic(4.0, "console", "rx", b"login: "),
    Traffic(4.0, "console", "rx", b"z" * 5000),
    Traffic(5.0, "console", "tx", b"<redacted>\r"),
)


def test_a_good_tape_has_no_finding(tape):
    assert check_tape(tape(*GOOD)) == []


@pytest.mark.parametrize(
    ("event", "finding"),
    [
        (get({"Attributes": {"Users.2.SHA256Password": "f0e1"}}), r"bios.jsonl:1: body.Attributes.Users.2.SHA256Password is not"),
        (get([{"Name": "Users.2#Password", "Value": "x1y2"}]), "bios.jsonl:1: body[0].Value is not redacted"),
        (get({"fill": BIG, "SHA256SetupPassword": "a" * 64}), "bodies/bmc-x@1.json: SHA256SetupPassword is not redacted"),
        (
            Exchange(0.0, "bmc", "PATCH", "/a", Effect.ACT, {"Password": "x1y2"}, 0.1, HttpReply(200, {}, None)),
            "ask.Password is not",
        ),
        (get("-----BEGIN RSA PRIVATE KEY-----\nMII"), "holds what looks like a private key"),
        (get({"x": "Authorization: Basic YWJj"}), "holds what looks like an authorization header"),
        (get({}, headers={"X-Auth-Token": "0a1b"}), "holds what looks like a session token"),
        (get({"note": "root:$6$saltsalt$abcdefghijklmnop"}), "holds what looks like a password hash"),
        (get("x" * 3000 + "\nPassword=hunter22"), "bodies/bmc-x@1.txt: the text is not redacted"),
        (Traffic(0.0, "fabric", "rx", b"x"), "bios.jsonl:1: fabric rx: the header has no lane fabric"),
    ],
)
def test_a_bad_event_is_a_finding(tape, event, finding):
    folder = tape(event)
    assert any(finding in each for each in check_tape(folder)), check_tape(folder)
    assert not any("hunter22" in each or "x1y2" in each for each in check_tape(folder))


def test_a_private_key_cut_by_reads_is_found(tape):
    folder = tape(Traffic(0.0, "console", "rx", b"-----BEGIN EC PRIV"), Traffic(0.1, "console", "rx", b"ATE KEY-----\r\n"))
    assert check_tape(folder) == [f"{TRACK}.jsonl: the stream console rx holds what looks like a private key"]


def test_known_literals_are_looked_for_where_they_are_given(tape):
    folder = tape(
        get({"note": "it is model-lab-only"}), Traffic(0.0, "console", "rx", b"model-"), Traffic(0.1, "console", "rx", b"lab-only")
    )
    assert check_tape(folder) == []
    assert check_tape(folder, Redactor(["model-lab-only"])) == [
        f"{TRACK}.jsonl: the stream console rx holds a secret that the bench file knows",
        f"{TRACK}.jsonl:1: body.note is not redacted",
    ]


class TestStructure:
    def test_an_unused_body(self, tape):
        folder = tape(*GOOD)
        (folder / "bodies/bmc-x@2.json").write_text("{}")
        assert check_tape(folder) == ["bodies/bmc-x@2.json: no event names this body"]

    def test_a_missing_body(self, tape):
        folder = tape(*GOOD)
        (folder / "bodies/bmc-x@1.json").unlink()
        assert f"{TRACK}.jsonl:2: the body bodies/bmc-x@1.json is missing; the tape is damaged, record it again" in check_tape(
            folder
        )

    def test_a_damaged_body(self, tape):
        folder = tape(*GOOD)
        (folder / "bodies/bmc-x@1.json").write_text("{")
        assert any(each.startswith("bodies/bmc-x@1.json: not JSON") for each in check_tape(folder))

    def test_a_damaged_line(self, tape):
        folder = tape(*GOOD)
        with (folder / f"{TRACK}.jsonl").open("a") as file:
            file.write('{"t": 1')
        assert any("bios.jsonl:8: the last line is cut off" in each for each in check_tape(folder))

    def test_an_act_without_an_answer(self, tape):
        folder = tape(*GOOD)
        with (folder / f"{TRACK}.jsonl").open("a") as file:
            file.write(json.dumps({"t": 1, "lane": "bmc", "op": "POST", "key": "/x", "effect": "act", "took": 1}) + "\n")
        assert any("bios.jsonl:8: has no status" in each for each in check_tape(folder))

    def test_a_stranger_among_the_files(self, tape):
        folder = tape(*GOOD)
        (folder / "notes.txt").write_text("")
        (folder / "link").symlink_to("/etc/passwd")
        assert check_tape(folder) == ["link: is a link; a tape holds files only", "notes.txt: belongs to no tape"]

    def test_a_wrong_name_of_a_track(self, tape):
        folder = tape(*GOOD)
        (folder / "a b.jsonl").write_text("")
        assert any("'a b' is not the name of a track" in each for each in check_tape(folder))

    def test_no_tape_at_all(self, tmp_path):
        assert len(check_tape(tmp_path)) == 1
        assert "no tape here" in check_tape(tmp_path)[0]


def test_a_summary_says_the_source_first_and_counts_each_track(tape):
    lines = summarise(tape(*GOOD))
    assert lines[0] == "source    model (simulated, not hardware)"
    assert any(line.startswith("tracks    1, with 7 events and 3 bodies of ") for line in lines)
    assert lines[-1].split() == [TRACK, "7", "events", "2", "writes", "12.0", "s", "bmc", "console", "host"]
