import json

import pytest

from harness.errors import AuthRefused, BenchError, TapeError, Timeout, Unreachable, Untrusted
from harness.ports import Effect
from harness.tape.events import CommandReply, Exchange, Failure, HttpReply, Traffic, failure_of
from harness.tape.format import Tape, write_tape
from harness.tape.header import TapeInfo, header_text, read_info
from harness.tape.lines import decode, encode

TRACK = "pcie/test_links/test_width"
LARGE = {"Members": [{"@odata.id": f"/redfish/v1/Systems/{number}"} for number in range(100)]}


def get(t=1.0, key="/redfish/v1/Systems", body=None, lane="bmc"):
    return Exchange(t, lane, "GET", key, Effect.OBSERVE, None, 0.09, HttpReply(200, {"etag": "1"}, body))


def command(t=1.0, key="agent pci", stdout="", lines=None):
    return Exchange(t, "host", "run", key, Effect.OBSERVE, None, 0.09, CommandReply(0, stdout, "", lines))


@pytest.fixture
def written(tmp_path, info):
    """Write events as the one track of a tape and open it."""

    def write(*events, name="tape"):
        write_tape(tmp_path / name, info, {TRACK: events})
        return Tape.open(tmp_path / name)

    return write


EVENTS = [
    get(body={"a": [1, 2.5, None, True, "ü\u2028"]}),
    get(body="not json"),
    get(body=None),
    get(body=[]),
    Exchange(0.0, "bmc", "POST", "/x", Effect.ACT, {"ResetType": "On"}, 2.5, HttpReply(204, {}, None)),
    Exchange(0.0, "host", "run", "cat /x", Effect.ACT, "input", 1.0, CommandReply(1, "", "no such file\n")),
    command(stdout="a\nb\nc", lines=((0.5, 2), (0.75, "not in stdout"))),
    Exchange(3.0, "bmc", "GET", "/x", Effect.OBSERVE, None, 30.0, Failure("Timeout", "GET /x", 30.0, {"seen": 1})),
    Exchange(3.0, "bmc", "GET", "/x", Effect.OBSERVE, None, 0.0, Failure("Unreachable", "refused")),
    Traffic(0.0, "console", "rx", b"login: "),
    Traffic(-4.5, "console", "rx", b"\xff\x00\xfe"),
    Traffic(0.0, "console", "tx", b"root\r", 0.25),
    Traffic(0.0, "console", "rx", b"", failure=Failure("Unreachable", "gone")),
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_one_line_that_reads_back_the_same(event):
    line = encode(event, lambda _, payload: payload, "x")
    assert "\n" not in line
    assert decode(line.encode(), "x:1", lambda body, where: None) == event


def test_the_fields_of_a_line_have_one_order():
    line = encode(EVENTS[4], lambda _, payload: payload, "x")
    assert list(json.loads(line)) == ["t", "lane", "op", "key", "effect", "ask", "took", "status", "headers"]
    assert line.startswith('{"t": 0.0, "lane": "bmc", "op": "POST", "key": "/x", "effect": "act", "ask": {"ResetType": "On"}')


def test_times_have_three_decimals():
    line = encode(get(t=1.23456789), lambda _, payload: payload, "x")
    assert json.loads(line)["t"] == 1.235


@pytest.mark.parametrize(
    "error", [Unreachable("gone"), Untrusted("pin"), AuthRefused("401"), Timeout("GET /x", 30, "Off"), BenchError("odd")]
)
def test_an_error_comes_back_as_it_was(error):
    again = failure_of(error).error()
    assert (type(again), str(again)) == (type(error), str(error))


def test_a_timeout_keeps_what_it_saw_last_even_if_that_is_no_json():
    assert failure_of(Timeout("x", 1, {1, 2})).last == "{1, 2}"


class TestBodies:
    def test_a_large_payload_lies_in_a_file_of_its_own(self, written):
        tape = written(get(body=LARGE))
        file = tape.folder / "bodies/bmc-redfish-v1-Systems@1.json"
        assert file.read_text().splitlines()[1:3] == [' "Members": [', "  {"]
        assert '"body_in": "bodies/bmc-redfish-v1-Systems@1.json"' in (tape.folder / f"{TRACK}.jsonl").read_text()
        assert tape.load(tape.events(TRACK)[0].reply.body) == LARGE

    def test_a_small_payload_stays_in_its_line(self, written):
        tape = written(get(body={"a": "x" * 2000}))
        assert not (tape.folder / "bodies").exists()

    def test_the_number_of_a_body_counts_the_versions_of_its_key_and_equal_ones_are_shared(self, written):
        other = {**LARGE, "Name": "new"}
        tape = written(get(1, body=LARGE), get(2, body=other), get(3, body=LARGE), get(4, key="/other", body=LARGE))
        names = [event.reply.body.name for event in tape.events(TRACK)]
        assert names == [
            "bodies/bmc-redfish-v1-Systems@1.json",
            "bodies/bmc-redfish-v1-Systems@2.json",
            "bodies/bmc-redfish-v1-Systems@1.json",
            "bodies/bmc-other@1.json",
        ]
        assert len(list((tape.folder / "bodies").iterdir())) == 3

    def test_a_text_is_kept_as_it_came(self, written):
        text = '{"kind": "device"}\r\n' * 500 + "ü\x85 no newline at the end"
        tape = written(command(stdout=text), get(body=text))
        assert [file.suffix for file in (tape.folder / "bodies").iterdir()] == [".txt", ".txt"]
        assert tape.load(tape.events(TRACK)[0].reply.stdout) == text
        assert (tape.folder / "bodies/host-agent-pci@1.txt").read_bytes() == text.encode()

    @pytest.mark.parametrize("payload", ["\ud800" * 1000, {"x": "\ud800" * 1000}, {"x": [float("inf")] * 1000}])
    def test_what_utf8_cannot_carry_is_escaped(self, written, payload):
        tape = written(get(body=payload))
        assert tape.load(tape.events(TRACK)[0].reply.body) == payload

    def test_a_large_chunk_of_a_stream_lies_in_a_body_too(self, written):
        for data in (b"x" * 5000, bytes(range(256)) * 20):
            tape = written(Traffic(1.0, "console", "rx", data), name=f"tape{data[0]}")
            assert len(list((tape.folder / "bodies").iterdir())) == 1
            assert tape.events(TRACK)[0].data == data

    def test_a_strange_key_makes_a_plain_file_name(self, written):
        key = "/redfish/v1/../../etc/passwd?$expand=*($levels=1)&x=" + "y" * 300
        tape = written(get(key=key, body=LARGE))
        (file,) = (tape.folder / "bodies").iterdir()
        assert len(file.name) < 140
        assert "/" not in file.name
        assert tape.load(tape.events(TRACK)[0].reply.body) == LARGE


class TestDamage:
    """A tape that cannot be read is a TapeError of one line, with file and line number."""

    def check(self, tape, line, problem):
        with pytest.raises(TapeError, match=rf"test_width\.jsonl:{line}: .*{problem}") as caught:
            Tape.open(tape.folder).events(TRACK)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("garbage", "not an event"),
            ("[1]", "not a JSON object"),
            ('{"t": 1}', "has no lane"),
            ('{"t": "1", "lane": "bmc", "op": "GET", "key": "/", "effect": "observe", "took": 0}', "t is not a number"),
            ('{"t": 1, "lane": "bmc", "op": "GET", "key": "/", "effect": "write", "took": 0}', "neither observe nor act"),
            ('{"t": 1, "lane": "bmc", "op": "GET", "key": "/", "effect": "act", "took": 0}', "has no status"),
            ('{"t": NaN, "lane": "console", "op": "rx", "data": "x"}', "t is not a number"),
            ('{"t": 1, "lane": "console", "op": "rx", "data": {"b64": "#"}}', "data is"),
            ('{"t": 1, "lane": "console", "op": "rx", "data": "x", "more": 1}', "unknown field 'more'"),
            ('{"t": 1, "lane": "console", "op": "rx", "error": {"kind": "Panic", "text": ""}}', "unknown kind of error 'Panic'"),
            ('{"t": 1, "lane": "console", "op": "rx", "data_in": "bodies/x@1.txt"}', r"the body bodies/x@1\.txt is missing"),
            ('{"t": 1, "lane": "console", "op": "rx", "data_in": "../../etc/passwd"}', "is not the name of a body"),
        ],
    )
    def test_a_garbled_line(self, written, line, problem):
        tape = written(get(), get())
        with (tape.folder / f"{TRACK}.jsonl").open("a") as file:
            file.write(line + "\n")
        self.check(tape, 3, problem)

    def test_a_line_that_is_cut_off(self, written):
        tape = written(get(), get())
        file = tape.folder / f"{TRACK}.jsonl"
        file.write_bytes(file.read_bytes()[:-20])
        self.check(tape, 2, "cut off")

    def test_a_line_that_is_no_utf8(self, written):
        tape = written(get())
        file = tape.folder / f"{TRACK}.jsonl"
        file.write_bytes(file.read_bytes() + b'{"t": "\xff"}\n')
        self.check(tape, 2, "not an event")

    def test_a_missing_body(self, written):
        tape = written(get(), get(body=LARGE))
        (tape.folder / "bodies/bmc-redfish-v1-Systems@1.json").unlink()
        self.check(tape, 2, r"the body bodies/bmc-redfish-v1-Systems@1\.json is missing")

    @pytest.mark.parametrize("content", [b"{", b"\xff"])
    def test_a_damaged_body(self, written, content):
        tape = written(get(body=LARGE))
        (tape.folder / "bodies/bmc-redfish-v1-Systems@1.json").write_bytes(content)
        with pytest.raises(TapeError, match=r"Systems@1\.json: .*the tape is damaged"):
            tape.load(tape.events(TRACK)[0].reply.body)


class TestHeader:
    def test_it_reads_back_the_same(self, tmp_path):
        info = TapeInfo(
            bench="b",
            platform="p",
            source="virtual-lab",
            recorded_at="2026-01-02T03:04:05+00:00",
            harness="1",
            stages=("bmc", "bios"),
            apply=True,
            lanes=("bmc",),
            identity={"BIOS version": 'a "quoted" \\ \x7f\u00fc\U0001f600\n'},
            facts={"grade": "qemu"},
        )
        (tmp_path / "tape.toml").write_text(header_text(info), encoding="utf-8")
        assert read_info(tmp_path) == info

    def test_a_newer_schema_says_to_update(self, tmp_path):
        (tmp_path / "tape.toml").write_text("schema = 2\n")
        with pytest.raises(TapeError, match=r"tape\.toml: schema 2 is newer than this version reads \(1\); update bringup-harness"):
            read_info(tmp_path)

    @pytest.mark.parametrize(
        ("before", "after", "problem"),
        [
            ('source = "model"', 'source = "real"', "source: 'real' is none of hardware, virtual-lab, model"),
            ("schema = 1", "schema = true", "not a schema number"),
            ("schema = 1", "", "not a schema number"),
            ("apply = true", 'apply = "yes"', "apply: 'yes' cannot be meant"),
            ("apply = true", "", "apply is missing"),
            ("apply = true", "apply = true\nextra = 1", "unknown key 'extra'"),
            ('lanes = ["bmc"]', "lanes = [1]", r"lanes: \[1\] cannot be meant"),
            ("+00:00", "", "not a time with its zone"),
            ("schema = 1", "schema =", "not valid TOML"),
        ],
    )
    def test_a_wrong_header_is_one_line(self, tmp_path, info, before, after, problem):
        text = header_text(info)
        assert before in text
        (tmp_path / "tape.toml").write_text(text.replace(before, after, 1))
        with pytest.raises(TapeError, match=rf"tape\.toml: .*{problem}") as caught:
            read_info(tmp_path)
        assert "\n" not in str(caught.value).removesuffix("\n")

    def test_a_folder_without_a_header_is_no_tape(self, tmp_path):
        with pytest.raises(TapeError, match=r"no tape here \(tape\.toml is missing\)"):
            Tape.open(tmp_path)


def test_reading_is_lazy(written):
    tape = written(get())
    (tape.folder / "other.jsonl").write_text("garbage\n")
    again = Tape.open(tape.folder)
    assert again.tracks() == ("other", TRACK)
    assert len(again.events(TRACK)) == 1


def test_a_tape_is_not_written_over_something(tmp_path, info):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TapeError, match="not empty"):
        write_tape(tmp_path, info, {})
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("track", ["../x", "/etc/x", "a//b", "a/../b", "a/.hidden", "bodies/x", "", "a b", "a\nb", "x" * 300])
def test_a_track_stays_inside_its_tape(tmp_path, info, track):
    with pytest.raises(TapeError, match="is not the name of a track"):
        write_tape(tmp_path / "tape", info, {track: [get()]})
