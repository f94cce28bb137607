"""DESIGN section 4 as tests: the machine is reset at 0 s, power is On at 37 s, POST ends at 60 s; recorded by polling every 5 s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness.errors import TapeMismatch, TapeMiss, Timeout, Unreachable
from harness.ports import HttpQuestion

TRACK = "boot/test_boot/test_it_boots"


@dataclass
class Measured:
    power: float
    post: float
    firmware: str


@pytest.fixture
def boot(paths):
    """The program: reset, wait for power, wait for the end of POST; with every way in which it may differ."""

    def get(bench, name):
        return bench.bmc.ask(HttpQuestion.observe("GET", paths[name]))

    def wait(bench, name, key, wanted, every, within, style):
        def look():
            return get(bench, name)

        def done(answer):
            return answer.body[key] == wanted

        if style == "until":
            return bench.clock.until(look, done, what=f"{key} {wanted}", every=every, within=within)
        deadline = bench.clock.now() + within
        while not done(answer := look()):
            if bench.clock.now() >= deadline:
                raise Timeout(f"{key} {wanted}", within, answer.body)
            bench.clock.sleep(every)
        return answer

    def program(
        bench,
        *,
        every: float = 5.0,
        style: str = "until",
        track: str = TRACK,
        body: Any = None,
        extra: str = "",
        unrecorded: bool = False,
        drop: bool = False,
        firmware: str = "before",
        wanted: str = "OSBoot",
        within: float = 300.0,
    ) -> Measured:
        with bench.tracks.on(track):
            assert get(bench, "system").body == {"PowerState": "Off"}
            version = get(bench, "firmware").body["FirmwareVersion"] if firmware == "before" else ""
            start = bench.clock.now()
            if not drop:
                start = bench.bmc.ask(HttpQuestion.act("POST", paths["reset"], body or {"ResetType": "On"})).at
            if firmware == "after":
                version = get(bench, "firmware").body["FirmwareVersion"]
            power = wait(bench, "system", "PowerState", "On", every, within, style)
            if extra:
                get(bench, extra)
            if unrecorded:
                bench.bmc.ask(HttpQuestion.observe("GET", "/redfish/v1/Systems/1/Thermal"))
            post = wait(bench, "post", "PostState", wanted, every, within, style)
            return Measured(power.at - start, post.at - start, version)

    return program


@pytest.fixture
def tape(record, boot):
    folder, measured = record(boot)
    assert (measured.power, measured.post) == (40, 60)
    return folder


POLLS = [1, 2, 5, 7, 10, 13, 37, 74]


class TestHarmlessChanges:
    """They give the same verdict and the same measured times."""

    @pytest.fixture(autouse=True)
    def _all_is_played(self, replay, tape):
        self.bench = replay(tape)
        yield
        assert self.bench.player.unplayed(TRACK) == []

    @pytest.mark.parametrize("every", POLLS)
    def test_a_wait_measures_the_same_whatever_its_interval(self, boot, every):
        assert boot(self.bench, every=every) == Measured(40, 60, "7.00.00.00")
        assert self.bench.clock.now() == pytest.approx(60)

    @pytest.mark.parametrize("every", POLLS)
    def test_sleeping_then_looking_measures_the_same_by_the_time_of_the_answer(self, boot, every):
        assert boot(self.bench, every=every, style="sleep") == Measured(40, 60, "7.00.00.00")

    @pytest.mark.parametrize("name", ["system", "post", "firmware"])
    def test_an_extra_read_changes_nothing(self, boot, name):
        assert boot(self.bench, extra=name) == Measured(40, 60, "7.00.00.00")

    def test_a_read_moved_behind_the_write_changes_nothing(self, boot):
        assert boot(self.bench, firmware="after") == Measured(40, 60, "7.00.00.00")

    def test_a_read_left_out_changes_nothing(self, boot):
        assert boot(self.bench, firmware="") == Measured(40, 60, "")

    def test_time_that_other_tracks_took_changes_nothing(self, boot):
        self.bench.clock.sleep(1234.5)
        assert boot(self.bench) == Measured(40, 60, "7.00.00.00")


class TestSeveralTracks:
    OTHER = "boot/test_boot/test_it_boots_again"

    @pytest.fixture
    def tape(self, record, boot):
        def both(bench):
            first = boot(bench)
            bench.world.reset_at = None
            return first, boot(bench, track=self.OTHER)

        return record(both)[0]

    def test_tracks_replay_in_any_order(self, replay, tape, boot):
        bench = replay(tape)
        assert boot(bench, track=self.OTHER) == boot(bench, track=TRACK) == Measured(40, 60, "7.00.00.00")
        assert bench.player.coverage().untouched == ()

    def test_one_track_replays_alone(self, replay, tape, boot):
        bench = replay(tape)
        assert boot(bench, track=self.OTHER) == Measured(40, 60, "7.00.00.00")
        assert bench.player.coverage().untouched == (TRACK,)

    def test_a_track_entered_in_the_middle_of_another_leaves_its_time_alone(self, replay, tape, boot, paths):
        bench = replay(tape)
        with bench.tracks.on(TRACK):
            system = HttpQuestion.observe("GET", paths["system"])
            bench.bmc.ask(system)
            start = bench.bmc.ask(HttpQuestion.act("POST", paths["reset"], {"ResetType": "On"}))
            assert boot(bench, track=self.OTHER) == Measured(40, 60, "7.00.00.00")
            on = bench.clock.until(
                lambda: bench.bmc.ask(system), lambda answer: answer.body["PowerState"] == "On", what="On", every=9, within=300
            )
            assert on.at - start.at == pytest.approx(40 + 60)

    def test_the_miss_in_one_track_names_the_other_that_has_it(self, replay, record, paths):
        def program(bench):
            with bench.tracks.on("session/firmware"):
                bench.bmc.ask(HttpQuestion.observe("GET", paths["firmware"]))
            with bench.tracks.on(TRACK):
                bench.bmc.ask(HttpQuestion.observe("GET", paths["system"]))

        bench = replay(record(program)[0])
        with bench.tracks.on(TRACK), pytest.raises(TapeMiss, match=r"track session/firmware has it"):
            bench.bmc.ask(HttpQuestion.observe("GET", paths["firmware"]))


class TestHarmfulChanges:
    """They are loud, and the message names what differs."""

    def test_a_changed_write_is_a_mismatch_with_a_diff(self, replay, tape, boot):
        with pytest.raises(TapeMismatch) as caught:
            boot(replay(tape), body={"ResetType": "ForceRestart"})
        text = str(caught.value)
        assert f"track {TRACK}: write 1 of 1 is not the recorded one" in text
        assert 'payload.ResetType: recorded "On", got "ForceRestart"' in text

    def test_a_changed_write_changes_no_state(self, replay, tape, boot, paths):
        bench = replay(tape)
        with pytest.raises(TapeMismatch):
            boot(bench, body={"ResetType": "ForceOff"})
        assert len(bench.player.unplayed(TRACK)) == 1

    def test_a_dropped_write_never_gets_past_the_wait_and_is_left_unplayed(self, replay, tape, boot, paths):
        bench = replay(tape)
        with pytest.raises(Timeout, match=r"last seen: .*Off"):
            boot(bench, drop=True)
        assert bench.player.unplayed(TRACK) == [f'bmc POST {paths["reset"]} {{"ResetType": "On"}}']

    def test_a_second_write_is_a_mismatch_that_says_it_was_played(self, replay, tape, boot, paths):
        bench = replay(tape)
        boot(bench)
        with bench.tracks.on(TRACK), pytest.raises(TapeMismatch, match=r"all are played[^§]*same as write 1 \(already played\)"):
            bench.bmc.ask(HttpQuestion.act("POST", paths["reset"], {"ResetType": "On"}))

    def test_an_unrecorded_read_is_a_miss_that_names_the_nearest_key_and_the_track(self, replay, tape, boot):
        with pytest.raises(TapeMiss) as caught:
            boot(replay(tape), unrecorded=True)
        assert "/redfish/v1/Systems/1/Thermal" in str(caught.value)
        assert f"track {TRACK}" in str(caught.value)
        assert "the nearest it has is bmc GET /redfish/v1/Systems/1" in str(caught.value)

    @pytest.mark.parametrize("style", ["until", "sleep"])
    def test_an_impossible_wait_times_out_honestly_with_the_last_thing_seen(self, replay, tape, boot, style):
        bench = replay(tape)
        with pytest.raises(Timeout, match=r"PostState Done: not within 300 s; last seen: .*OSBoot"):
            boot(bench, wanted="Done", style=style)
        assert bench.clock.now() == pytest.approx(40 + 300, abs=6)

    def test_a_read_recorded_only_after_a_write_is_a_miss_before_it(self, replay, record, boot):
        tape, _ = record(lambda bench: boot(bench, firmware="after"))
        with pytest.raises(TapeMiss, match="recorded it only after its write 1"):
            boot(replay(tape), firmware="before")

    def test_a_track_that_is_not_on_the_tape_is_a_miss(self, replay, tape, boot):
        with pytest.raises(TapeMiss, match=f"the tape has no track boot/new .track {TRACK} has it."):
            boot(replay(tape), track="boot/new")

    def test_a_wrong_lane_is_a_miss(self, replay, tape, paths):
        bench = replay(tape)
        with bench.tracks.on(TRACK), pytest.raises(TapeMiss, match="fabric GET"):
            bench.player.http("fabric").ask(HttpQuestion.observe("GET", paths["system"]))


class TestReads:
    def test_the_clock_moves_to_a_first_sample_that_lies_ahead(self, record, replay, paths):
        def program(bench):
            bench.clock.sleep(12)
            return bench.bmc.ask(HttpQuestion.observe("GET", paths["system"]))

        bench = replay(record(program)[0])
        assert bench.bmc.ask(HttpQuestion.observe("GET", paths["system"])).at == 12
        assert bench.clock.now() == 12

    def test_the_latest_sample_at_or_before_now_is_given_with_its_own_time(self, record, replay, paths):
        def program(bench):
            question = HttpQuestion.observe("GET", paths["system"])
            bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
            for _ in range(10):
                bench.bmc.ask(question)
                bench.clock.sleep(5)

        bench = replay(record(program)[0])
        bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
        bench.clock.sleep(38)
        answer = bench.bmc.ask(HttpQuestion.observe("GET", paths["system"]))
        assert (answer.body["PowerState"], answer.at, bench.clock.now()) == ("PoweringOn", 0, 38)
        bench.clock.sleep(2)
        answer = bench.bmc.ask(HttpQuestion.observe("GET", paths["system"]))
        assert (answer.body["PowerState"], answer.at, bench.clock.now()) == ("On", 40, 40)

    def test_an_unchanged_program_gets_every_answer_at_its_own_time(self, record, replay, paths):
        def program(bench):
            answers = []
            bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
            for _ in range(12):
                bench.clock.sleep(7.5)
                answers.append(bench.bmc.ask(HttpQuestion.observe("GET", paths["system"])))
            return answers

        tape, recorded = record(program, costs=0.25)
        assert program(replay(tape)) == recorded

    def test_a_read_that_skips_samples_bears_the_time_at_which_the_recording_saw_the_change(self, record, replay, paths):
        def program(bench, pause):
            start = bench.bmc.ask(HttpQuestion.act("POST", paths["reset"])).at
            answers = []
            for _ in range(int(80 / pause)):
                bench.clock.sleep(pause)
                answers.append(bench.bmc.ask(HttpQuestion.observe("GET", paths["system"])))
            return next(answer.at for answer in answers if answer.body["PowerState"] == "On") - start

        tape, measured = record(lambda bench: program(bench, 5))
        assert measured == 40
        assert {program(replay(tape), pause) for pause in (1, 5, 8, 20, 80)} == {40}

    def test_the_time_a_program_thinks_does_not_make_an_answer_stale(self, record, replay, paths):
        """A live program parses for 30 ms between reads; a replay does not, and must not see the state of before."""

        def program(bench, thinks):
            system, post = (HttpQuestion.observe("GET", paths[name]) for name in ("system", "post"))
            bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
            bench.bmc.ask(system)
            bench.clock.until(
                lambda: bench.bmc.ask(post), lambda answer: answer.body["PostState"] == "OSBoot", what="POST", every=5, within=300
            )
            bench.clock.sleep(thinks)
            return bench.bmc.ask(system).body["PowerState"]

        tape, state = record(lambda bench: program(bench, 0.03), costs=0.05)
        assert state == program(replay(tape), 0.0) == "On"

    def test_the_noise_of_adding_times_does_not_hide_a_sample(self, record, replay, paths):
        def program(bench):
            bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
            for tenth in range(6):
                bench.clock.sleep(tenth / 10 - bench.clock.now())
                bench.bmc.ask(HttpQuestion.observe("GET", paths["system"]))

        bench = replay(record(program, power_at=0.3)[0])
        bench.clock.sleep(1234.6)
        bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
        bench.clock.sleep(0.3)
        assert bench.clock.now() - 1234.6 < 0.3, "the clock is a hair early"
        assert bench.bmc.ask(HttpQuestion.observe("GET", paths["system"])).body == {"PowerState": "On"}

    def test_each_answer_is_a_value_of_its_own(self, replay, tape, paths):
        bench = replay(tape)
        question = HttpQuestion.observe("GET", paths["system"])
        with bench.tracks.on(TRACK):
            bench.bmc.ask(question).body["PowerState"] = "spoilt"
            assert bench.bmc.ask(question).body == {"PowerState": "Off"}

    def test_reads_with_a_body_have_a_timeline_for_each_body(self, record, replay):
        class Port:
            def __init__(self, clock):
                self.clock = clock

            def ask(self, question, on_line=None):
                from harness.ports import HttpAnswer

                return HttpAnswer(200, {}, {"echo": question.body}, self.clock.now(), 0.0)

            def close(self): ...

        def program(bench):
            lane = bench.recorder.asks("bmc", Port(bench.clock)) if bench.recorder else bench.bmc
            return [lane.ask(HttpQuestion.observe("POST", "/query", {"a": 1, "of": of})).body for of in ("cpu", "gpu", "cpu")]

        tape, told = record(program)
        assert program(replay(tape)) == told == [{"echo": {"a": 1, "of": of}} for of in ("cpu", "gpu", "cpu")]
        bench = replay(tape)
        assert bench.bmc.ask(HttpQuestion.observe("POST", "/query", {"of": "gpu", "a": 1})).body["echo"]["of"] == "gpu"
        with pytest.raises(TapeMiss, match="POST /query"):
            bench.bmc.ask(HttpQuestion.observe("POST", "/query", {"a": 1, "of": "nic"}))


class TestWrites:
    def test_a_write_moves_the_clock_by_what_it_took(self, record, replay, paths):
        tape, _ = record(lambda bench: bench.bmc.ask(HttpQuestion.act("POST", paths["reset"])), costs=2.5)
        bench = replay(tape)
        answer = bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
        assert (answer.status, answer.at, answer.took, bench.clock.now()) == (204, 2.5, 2.5, 2.5)

    def test_volatile_keys_are_not_compared(self, record, replay, paths):
        def program(bench, nonce):
            question = HttpQuestion.act("POST", paths["reset"], {"ResetType": "On", "Nonce": nonce}, volatile=["Nonce"])
            return bench.bmc.ask(question).status

        tape, _ = record(lambda bench: program(bench, "1a"))
        assert program(replay(tape), "2b") == 204
        assert "1a" not in (tape / "session/loose.jsonl").read_text()
        with pytest.raises(TapeMismatch, match=r"payload.ResetType"):
            replay(tape).bmc.ask(HttpQuestion.act("POST", paths["reset"], {"ResetType": "Off", "Nonce": "3c"}))

    def test_a_write_of_another_order_names_its_place_in_the_script(self, record, replay, paths):
        def program(bench, kinds):
            for kind in kinds:
                bench.bmc.ask(HttpQuestion.act("POST", paths["reset"], {"ResetType": kind}))

        tape, _ = record(lambda bench: program(bench, ["On", "ForceOff", "Nmi"]))
        with pytest.raises(TapeMismatch, match=r"it is the same as write 3 \(still to come\)"):
            program(replay(tape), ["On", "Nmi"])

    def test_a_mismatch_shows_no_password(self, record, replay):
        def program(bench, word):
            bench.bmc.ask(HttpQuestion.act("PATCH", "/Accounts/2", {"Password": "kept-secret", "Enabled": word}))

        tape, _ = record(lambda bench: program(bench, "yes"))
        program(replay(tape), "yes")
        with pytest.raises(TapeMismatch) as caught:
            program(replay(tape), "no")
        assert "kept-secret" not in str(caught.value)


class TestErrors:
    """An iDRAC that restarts in the middle of a job is part of a passing run."""

    def program(self, bench, paths, every):
        lost = []

        def look():
            try:
                return bench.bmc.ask(HttpQuestion.observe("GET", paths["system"])).body["PowerState"]
            except Unreachable as error:
                lost.append((bench.clock.now(), str(error)))
                return None

        bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
        bench.clock.until(look, lambda seen: seen == "On", what="On", every=every, within=300)
        return bench.clock.now(), lost

    @pytest.mark.parametrize("every", [1, 5, 60])
    def test_a_lost_connection_is_recorded_and_lost_again(self, record, replay, paths, every):
        def fails(question, now):
            return Unreachable("bmc: connection refused") if 10 <= now < 20 and question.method == "GET" else None

        tape, told = record(lambda bench: self.program(bench, paths, 5), fails=fails)
        assert told == (40, [(10, "bmc: connection refused"), (15, "bmc: connection refused")])
        assert self.program(replay(tape), paths, every) == told

    def test_a_write_whose_answer_was_lost_takes_its_time_and_raises_again(self, record, replay, paths):
        def program(bench):
            with pytest.raises(Timeout) as caught:
                bench.bmc.ask(HttpQuestion.act("PATCH", "/Bios/Settings", {"Attributes": {}}))
            return str(caught.value), caught.value.last, bench.clock.now()

        def fails(question, now):
            return Timeout("PATCH /Bios/Settings", 30, {"sent": True})

        tape, told = record(program, fails=fails, costs=30.0)
        assert program(replay(tape)) == told == (told[0], {"sent": True}, 30)

    def test_an_earlier_epoch_prefers_an_answer_to_an_error(self, record, replay, paths):
        def program(bench):
            question = HttpQuestion.observe("GET", paths["firmware"])
            bench.bmc.ask(question)
            bench.clock.sleep(5)
            with pytest.raises(Unreachable):
                bench.bmc.ask(question)
            bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))

        tape, _ = record(
            program, fails=lambda question, now: Unreachable("gone") if now == 5 and question.method == "GET" else None
        )
        bench = replay(tape)
        bench.bmc.ask(HttpQuestion.act("POST", paths["reset"]))
        assert bench.bmc.ask(HttpQuestion.observe("GET", paths["firmware"])).status == 200
