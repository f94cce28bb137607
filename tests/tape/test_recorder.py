import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clock import Deadline, VirtualClock
from harness.errors import AuthRefused, BenchError, TapeError, Timeout, Unreachable
from harness.ports import Chunk, CommandAnswer, CommandQuestion, HttpAnswer, HttpQuestion, Lanes
from harness.secret import Secret
from harness.tape.format import Tape
from harness.tape.library import replace_tape
from harness.tape.player import Player
from harness.tape.recorder import Recorder
from harness.tape.redact import Redactor
from harness.tape.tracks import Tracks

SECRET = "model-lab-only"
GET = HttpQuestion.observe("GET", "/redfish/v1")


class Port:
    """Answers with what it is told to, or raises it; remembers what it was asked."""

    def __init__(self, clock, *answers, costs=0.0):
        self.clock, self.answers, self.costs, self.asked, self.closed = clock, list(answers), costs, [], 0

    def ask(self, question, on_line=None):
        self.asked.append(question)
        self.clock.sleep(self.costs)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(question, CommandQuestion):
            for line in answer.splitlines() if on_line else ():
                on_line(line, self.clock.now())
                self.clock.sleep(1)
            return CommandAnswer(0, answer, "", self.clock.now(), self.costs)
        return HttpAnswer(200, {"content-type": "application/json", "x-auth-token": "t0ken"}, answer, self.clock.now(), self.costs)

    def close(self):
        self.closed += 1


class Console:
    """Plays chunks at their times; swallows what is written."""

    def __init__(self, clock, *chunks):
        self.clock, self.chunks, self.sent = clock, list(chunks), []

    def read(self, deadline):
        if self.chunks and isinstance(self.chunks[0][1], Exception):
            raise self.chunks.pop(0)[1]
        if self.chunks and self.chunks[0][0] <= deadline.at:
            at, data = self.chunks.pop(0)
            self.clock.sleep(at - self.clock.now())
            return Chunk(data, at)
        self.clock.sleep(deadline.left(self.clock))
        return Chunk(b"", self.clock.now())

    def write(self, data):
        self.sent.append(data)

    def close(self): ...


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def tracks(clock):
    return Tracks(clock)


@pytest.fixture
def recorder(clock, tracks):
    return Recorder(tracks, clock, Redactor([Secret(SECRET)]))


@pytest.fixture
def play(recorder, tmp_path, info):
    """Write the tape and open a player on it."""

    def open_player():
        if not (tmp_path / "tape").exists():
            recorder.write(tmp_path / "tape", info)
        fresh = VirtualClock()
        tracks = Tracks(fresh)
        player = Player(tmp_path / "tape", tracks, fresh)
        player.clock, player.tracks = fresh, tracks
        return player

    return open_player


def texts(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


class TestRedaction:
    def test_the_caller_gets_the_true_answer_and_the_tape_a_redacted_one(self, recorder, clock, tmp_path, info):
        body = {"Users.2.SHA256Password": "5ebe2294ecd0e0f0", "note": f"it is {SECRET}", "PasswordStatus": "Unlocked"}
        lane = recorder.asks("bmc", Port(clock, body, {"later": "5ebe2294ecd0e0f0"}))
        assert lane.ask(GET).body == body
        assert lane.ask(HttpQuestion.observe("GET", f"/users/{SECRET}")).headers["x-auth-token"] == "t0ken"
        recorder.write(tmp_path / "tape", info)
        kept = texts(tmp_path / "tape")
        for secret in (SECRET, "5ebe2294ecd0e0f0", "t0ken"):
            assert secret not in kept
        assert "Unlocked" in kept

    def test_what_is_learned_late_is_taken_out_of_what_was_noted_before(self, recorder, clock, tmp_path, info):
        lane = recorder.asks("bmc", Port(clock, {"note": "deadbeef1234"}, {"Password": "deadbeef1234"}))
        console = recorder.stream("console", Console(clock, (0, b"dead"), (0, b"beef1234")))
        console.read(Deadline(1))
        console.read(Deadline(1))
        lane.ask(GET)
        lane.ask(GET)
        recorder.write(tmp_path / "tape", info)
        assert "deadbeef" not in texts(tmp_path / "tape")
        assert "beef1234" not in texts(tmp_path / "tape")

    def test_a_password_typed_byte_by_byte_is_on_no_tape_and_replays(self, recorder, clock, play, tmp_path):
        console = recorder.stream("console", Console(clock, (0.0, b"Password: ")))
        typed = [bytes([each]) for each in f"{SECRET}\r".encode()]
        for byte in typed:
            console.write(byte)
        assert console.read(Deadline(1)).data == b"Password: "
        player = play()
        kept = (tmp_path / "tape/session/loose.jsonl").read_text()
        assert '"data": "m"' not in kept
        for byte in typed:
            player.stream("console").write(byte)
        assert player.unplayed("session/loose") == []

    def test_a_secret_cut_by_two_reads_is_on_no_tape_even_across_tracks(self, recorder, clock, tracks, tmp_path, info):
        console = recorder.stream("console", Console(clock, (0, b"x model-"), (0, b"lab-only y")))
        recorder.keep_in(tmp_path / "evidence", info)
        with tracks.on("a"):
            console.read(Deadline(1))
        with tracks.on("b"):
            console.read(Deadline(1))
        recorder.write(tmp_path / "tape", info)
        assert Tape.open(tmp_path / "tape").events("a")[0].data == b"x <redacted>"
        assert Tape.open(tmp_path / "tape").events("b")[0].data == b" y"
        for folder in ("evidence", "tape"):
            assert "model-" not in texts(tmp_path / folder)
            assert "lab-only" not in texts(tmp_path / folder)

    @pytest.mark.parametrize("question", [
        HttpQuestion.act("PATCH", "/accounts/2", {"Password": SECRET, "UserName": "bringup"}),
        HttpQuestion.observe("POST", "/export", {"Share": {"Password": SECRET, "User": f"u-{SECRET}"}}),
        HttpQuestion.observe("GET", f"/find?name={SECRET}"),
    ])  # fmt: skip
    def test_a_question_with_a_secret_replays(self, recorder, clock, play, tmp_path, question):
        recorder.asks("bmc", Port(clock, {"ok": True})).ask(question)
        assert play().http("bmc").ask(question).body == {"ok": True}
        assert SECRET not in texts(tmp_path / "tape")

    def test_a_command_with_a_secret_replays(self, recorder, clock, play, tmp_path):
        question = CommandQuestion.act("curl", "-u", f"bringup:{SECRET}", stdin=SECRET.encode())
        recorder.asks("host", Port(clock, f"said {SECRET}\n")).ask(question)
        assert play().commands("host").ask(question).stdout == "said <redacted>\n"
        assert SECRET not in texts(tmp_path / "tape")

    def test_errors_are_redacted_too(self, recorder, clock, tmp_path, info):
        lane = recorder.asks("bmc", Port(clock, Unreachable(f"no route to {SECRET}"), Timeout(SECRET, 1, {"Password": "hunter22"})))
        for error in (Unreachable, Timeout):
            with pytest.raises(error):
                lane.ask(GET)
        recorder.write(tmp_path / "tape", info)
        assert SECRET not in texts(tmp_path / "tape")
        assert "hunter22" not in texts(tmp_path / "tape")


class TestErrors:
    @pytest.mark.parametrize("error", [Unreachable("gone"), AuthRefused("401"), Timeout("GET /", 3, None), BenchError("odd")])
    def test_what_a_port_raises_is_raised_recorded_and_raised_again(self, recorder, clock, play, error):
        with pytest.raises(type(error)) as live:
            recorder.asks("bmc", Port(clock, error, costs=2)).ask(GET)
        assert live.value is error
        player = play()
        with pytest.raises(type(error)) as replayed:
            player.http("bmc").ask(GET)
        assert (type(replayed.value), str(replayed.value)) == (type(error), str(error))
        assert player.clock.now() == 2

    def test_an_act_that_was_cut_short_is_noted(self, recorder, clock, tmp_path, info):
        with pytest.raises(KeyboardInterrupt):
            recorder.asks("bmc", Port(clock, KeyboardInterrupt())).ask(HttpQuestion.act("POST", "/reset"))
        recorder.write(tmp_path / "tape", info)
        assert "cut short by KeyboardInterrupt" in texts(tmp_path / "tape")

    def test_a_lost_console_is_lost_again(self, recorder, clock, play):
        console = recorder.stream("console", Console(clock, (1.0, b"up"), (0, Unreachable("cable out"))))
        console.read(Deadline(5))
        with pytest.raises(Unreachable):
            console.read(Deadline(5))
        stream = play().stream("console")
        assert stream.read(Deadline(5)).data == b"up"
        with pytest.raises(Unreachable, match="cable out"):
            stream.read(Deadline(5))

    def test_nothing_is_asked_where_the_track_has_no_possible_name(self, recorder, clock, tracks):
        port = Port(clock, {})
        with tracks.on("../x"), pytest.raises(TapeError, match="is not the name of a track"):
            recorder.asks("bmc", port).ask(GET)
        assert port.asked == []


class TestCommands:
    def test_lines_replay_with_their_times(self, recorder, clock, play):
        def listen(lane, clock):
            heard = []
            question = CommandQuestion.observe("python3", stdin=b"payload", name="agent p2p --loops 3")
            answer = lane.ask(question, lambda line, at: heard.append((line, at, clock.now())))
            return heard, answer.stdout, answer.at

        clock.sleep(7)
        told = listen(recorder.asks("host", Port(clock, "one\ntwo\nthree\n", costs=0.5)), clock)
        assert [at for _, at, _ in told[0]] == [7.5, 8.5, 9.5]
        player = play()
        assert listen(player.commands("host"), player.clock) == told

    def test_a_listener_that_the_recording_lacked_hears_all_lines_at_the_end(self, recorder, clock, play):
        question = CommandQuestion.observe("dmesg")
        recorder.asks("host", Port(clock, "one\ntwo\n", costs=2)).ask(question)
        heard = []
        play().commands("host").ask(question, lambda line, at: heard.append((line, at)))
        assert heard == [("one", 2), ("two", 2)]

    def test_a_named_command_is_known_by_its_name(self, recorder, clock, play):
        recorder.asks("host", Port(clock, "ok")).ask(CommandQuestion.act("python3", "-c", "v1", stdin=b"zip1", name="agent p2p"))
        assert play().commands("host").ask(CommandQuestion.act("python3.9", "v2", stdin=b"2", name="agent p2p")).stdout == "ok"

    def test_large_output_is_kept_as_text(self, recorder, clock, tmp_path, info):
        printed = "".join(json.dumps({"kind": "device", "n": number}) + "\n" for number in range(200))
        recorder.asks("host", Port(clock, printed)).ask(CommandQuestion.observe("x", name="agent pci"))
        recorder.write(tmp_path / "tape", info)
        assert (tmp_path / "tape/bodies/host-agent-pci@1.txt").read_text() == printed


class TestStreams:
    def test_emissions_come_at_their_times_after_the_last_write_on_any_lane(self, recorder, clock, play):
        lane = recorder.asks("bmc", Port(clock, None, costs=0.5))
        console = recorder.stream("console", Console(clock, (12.0, b"UEFI"), (30.0, b"login: ")))
        clock.sleep(10)
        lane.ask(HttpQuestion.act("POST", "/reset"))
        assert [console.read(Deadline(60)).at for _ in range(2)] == [12, 30]
        player = play()
        stream = player.stream("console")
        assert stream.read(Deadline(60)).data == b"", "nothing comes before the write"
        assert player.clock.now() == 60
        player.http("bmc").ask(HttpQuestion.act("POST", "/reset"))
        assert stream.read(Deadline(61)).data == b""
        assert player.clock.now() == 61
        chunk = stream.read(Deadline(100))
        assert (chunk.data, chunk.at, player.clock.now()) == (b"UEFI", 62, 62)
        player.clock.sleep(30)
        chunk = stream.read(Deadline(0))
        assert (chunk.data, chunk.at, player.clock.now()) == (b"login: ", 80, 92)

    def test_what_was_typed_begins_an_epoch_and_takes_its_time(self, recorder, clock, play):
        class Slow(Console):
            def write(self, data):
                self.clock.sleep(2)

        console = recorder.stream("console", Slow(clock, (5.0, b"ok")))
        console.write(b"x" * 100)
        console.read(Deadline(9))
        player = play()
        player.clock.sleep(100)
        player.stream("console").write(b"x" * 100)
        assert player.clock.now() == 102
        assert player.stream("console").read(Deadline(200)).at == 105

    def test_a_wait_wakes_at_the_next_emission(self, recorder, clock, play):
        def wait(console, clock, every):
            seen = []

            def look():
                seen.append(console.read(Deadline(clock.now())))
                return b"".join(chunk.data for chunk in seen)

            clock.until(look, lambda text: b"login" in text, what="login", every=every, within=100)
            return seen[-1].at

        assert wait(recorder.stream("console", Console(clock, (3.0, b"UEFI "), (33.0, b"login"))), clock, 10) == 33
        for every in (1, 10, 60):
            player = play()
            assert wait(player.stream("console"), player.clock, every) == player.clock.now() == 33

    def test_what_is_read_joins_the_track_of_the_reader(self, recorder, clock, tracks, tmp_path, info):
        console = recorder.stream("console", Console(clock, (1.0, b"a"), (2.0, b"b")))
        with tracks.on("one"):
            console.read(Deadline(5))
        with tracks.on("two"):
            console.read(Deadline(5))
        recorder.write(tmp_path / "tape", info)
        tape = Tape.open(tmp_path / "tape")
        assert [(name, tape.events(name)[0].data) for name in tape.tracks()] == [("one", b"a"), ("two", b"b")]

    def test_a_changed_keystroke_is_a_mismatch(self, recorder, clock, play):
        from harness.errors import TapeMismatch

        recorder.stream("console", Console(clock)).write(b"root\r")
        with pytest.raises(TapeMismatch, match=r'payload: recorded "root\\r", got "admin\\r"'):
            play().stream("console").write(b"admin\r")


class TestLanes:
    def test_every_lane_is_recorded_and_comes_back(self, recorder, clock, tmp_path, info):
        bmc, host, console = Port(clock, {"a": 1}), Port(clock, "out"), Console(clock, (1, b"x"))
        lanes = recorder.lanes(Lanes(bmc=bmc, host=host, console=console, facts={"grade": "model"}))
        lanes.bmc.ask(GET)
        lanes.host.ask(CommandQuestion.observe("uname", "-r"))
        lanes.console.read(Deadline(2))
        recorder.write(tmp_path / "tape", info)
        fresh = VirtualClock()
        again = Player(tmp_path / "tape", Tracks(fresh), fresh).lanes()
        assert again.fabric is None
        assert dict(again.facts) == {"grade": "model"}
        assert again.bmc.ask(GET).body == {"a": 1}
        assert again.host.ask(CommandQuestion.observe("uname", "-r")).stdout == "out"
        assert again.console.read(Deadline(2)).data == b"x"
        again.close()
        lanes.close()
        assert (bmc.closed, host.closed) == (1, 1)


class TestFiles:
    def run(self, info, folder, order):
        clock = VirtualClock()
        tracks = Tracks(clock)
        recorder = Recorder(tracks, clock, Redactor([SECRET]))
        bodies = {name: {"name": name, "fill": "x" * 3000} for name in "ab"}
        for name in order:
            with tracks.on(name):
                lane = recorder.asks("bmc", Port(clock, bodies[name], {"shared": "y" * 3000}, costs=1 / 3))
                lane.ask(HttpQuestion.observe("GET", "/x"))
                lane.ask(HttpQuestion.observe("GET", "/y"))
        recorder.write(folder, info)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def test_two_recordings_of_the_same_machine_are_the_same_files(self, tmp_path, info):
        first = self.run(info, tmp_path / "1", "ab")
        assert len(first) == 6
        assert self.run(info, tmp_path / "2", "ab") == first

    def test_the_order_of_tests_leaves_no_trace(self, tmp_path, info):
        assert self.run(info, tmp_path / "1", "ab") == self.run(info, tmp_path / "2", "ba")

    def test_a_disk_that_refuses_is_a_bench_error(self, recorder, tmp_path, info):
        (tmp_path / "file").write_text("")
        with pytest.raises(BenchError, match="cannot write the tape"):
            recorder.write(tmp_path / "file" / "tape", info)


class TestEvidence:
    def test_every_event_is_on_disk_at_once(self, recorder, clock, tmp_path, info):
        recorder.keep_in(tmp_path / "evidence", info)
        lanes = recorder.lanes(Lanes(bmc=Port(clock, {"a": 1}, {"b": "x" * 3000})))
        for number in (1, 2):
            lanes.bmc.ask(GET)
            tape = Tape.open(tmp_path / "evidence")
            assert len(tape.events("session/loose")) == number
            assert tape.info.lanes == ("bmc",)
        assert tape.load(tape.events("session/loose")[1].reply.body) == {"b": "x" * 3000}

    def test_it_can_be_kept_without_knowing_the_header(self, recorder, clock, tmp_path, info):
        recorder.keep_in(tmp_path / "evidence")
        recorder.asks("bmc", Port(clock, {"a": 1})).ask(GET)
        assert (tmp_path / "evidence/session/loose.jsonl").read_text().count("\n") == 1
        recorder.settle(info)
        assert Tape.open(tmp_path / "evidence").events("session/loose")[0].reply.body == {"a": 1}

    def test_settling_makes_it_the_exact_tape(self, recorder, clock, tmp_path, info):
        recorder.keep_in(tmp_path / "evidence", info)
        console = recorder.stream("console", Console(clock, (0, b"prom"), (0, b"pt")))
        console.read(Deadline(1))
        assert Tape.open(tmp_path / "evidence").events("session/loose")[0].data == b"pro<redacted>"
        console.read(Deadline(1))
        recorder.settle(info)
        recorder.write(tmp_path / "tape", info)
        assert texts(tmp_path / "evidence") == texts(tmp_path / "tape")
        assert Tape.open(tmp_path / "tape").events("session/loose")[0].data == b"prom"

    def test_a_full_disk_does_not_stop_the_run(self, recorder, clock, tmp_path, info):
        (tmp_path / "file").write_text("")
        recorder.keep_in(tmp_path / "file" / "evidence", info)
        assert recorder.asks("bmc", Port(clock, {"a": 1})).ask(GET).body == {"a": 1}
        assert "is incomplete" in recorder.trouble

    def test_a_killed_run_leaves_a_tape_that_can_be_read(self, tmp_path):
        script = textwrap.dedent(
            """
            import sys, time
            from pathlib import Path
            from harness.clock import WallClock
            from harness.ports import HttpAnswer, HttpQuestion
            from harness.tape.format import TapeInfo
            from harness.tape.recorder import Recorder
            from harness.tape.redact import Redactor
            from harness.tape.tracks import Tracks
            clock = WallClock()
            class Port:
                def ask(self, question, on_line=None):
                    return HttpAnswer(200, {}, {"x": "y" * 5000}, clock.now(), 0.0)
                def close(self): ...
            recorder = Recorder(Tracks(clock), clock, Redactor())
            info = TapeInfo("b", "p", "model", "2026-01-02T03:04:05+00:00", "0", lanes=("bmc",))
            recorder.keep_in(Path(sys.argv[1]), info)
            lane = recorder.asks("bmc", Port())
            while True:
                lane.ask(HttpQuestion.observe("GET", "/x"))
                sys.stdout.write("."); sys.stdout.flush()
            """
        )
        child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "evidence")], stdout=subprocess.PIPE)
        assert len(child.stdout.read(50)) == 50
        os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()
        assert len(Tape.open(tmp_path / "evidence").events("session/loose")) >= 50


def test_a_tape_is_kept_only_if_the_scan_finds_none_of_the_known_secrets(recorder, clock, tmp_path, info, monkeypatch):
    recorder.asks("bmc", Port(clock, {"note": f"it is {SECRET}"})).ask(GET)
    recorder.lanes(Lanes(bmc=Port(clock)))
    replace_tape(tmp_path / "tapes/toy", lambda folder: recorder.write(folder, info), redactor=Redactor([SECRET]))
    assert Tape.open(tmp_path / "tapes/toy").events("session/loose")[0].reply.body == {"note": "it is <redacted>"}
    monkeypatch.setattr("harness.tape.recorder.redacted", lambda reply, redactor: replace(reply, headers={}))
    broken = Recorder(Tracks(clock), clock, Redactor([SECRET]))
    broken.asks("bmc", Port(clock, {"note": f"it is {SECRET}"})).ask(GET)
    broken.lanes(Lanes(bmc=Port(clock)))
    with pytest.raises(TapeError, match=r"body\.note is not redacted"):
        replace_tape(tmp_path / "tapes/toy", lambda folder: broken.write(folder, info), redactor=Redactor([SECRET]))
