"""The contract of the seams: one suite, passed alike by every live adapter, a recorder around it and a player of its recording."""

from __future__ import annotations

import pytest

from harness.clock import Deadline
from harness.ports import CommandAnswer, CommandQuestion, HttpQuestion

tls = pytest.param("tls", marks=pytest.mark.socket)
ssh = pytest.param("ssh", marks=pytest.mark.socket)
console_shell = pytest.param("console shell", marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", ["in process", tls, "local", ssh, console_shell])
class TestAsks:
    def test_an_answer_says_when_it_was_complete_and_how_long_it_took(self, perform, seam):
        def conversation(lane, clock):
            began = clock.now()
            answer = lane.ask(seam.count())
            return began, answer, clock.now()

        began, answer, ended = perform(conversation)
        assert answer.took > 0
        assert began <= answer.at - answer.took + 0.002
        assert answer.at <= ended + 0.002

    def test_an_error_status_is_an_answer(self, perform, seam):
        answer = perform(lambda lane, clock: lane.ask(seam.wrong()))
        assert answer.status == (404 if seam.is_http else 3)
        assert isinstance(answer, CommandAnswer) != seam.is_http
        assert "GeneralError" in answer.body["error"]["code"] if seam.is_http else answer.stderr == "no\n"

    def test_a_question_without_an_answer_raises(self, perform, seam):
        def conversation(lane, clock):
            began = clock.now()
            with pytest.raises(seam.lost_as) as caught:
                lane.ask(seam.lost())
            return str(caught.value), clock.now() - began

        message, took = perform(conversation)
        assert ("lost" if seam.is_http else "sleep 9") in message
        assert took >= (0 if seam.is_http else 0.148)

    def test_the_lane_answers_again_after_a_loss(self, perform, seam):
        def conversation(lane, clock):
            with pytest.raises(seam.lost_as):
                lane.ask(seam.lost())
            return lane.ask(seam.count()).status

        assert perform(conversation) == (200 if seam.is_http else 0)

    def test_an_act_changes_what_is_observed(self, perform, seam):
        def conversation(lane, clock):
            states = [lane.ask(seam.count())]
            for by in (5, 7):
                lane.ask(seam.add(by))
                states.append(lane.ask(seam.count()))
            return [state.body["count"] if seam.is_http else state.stdout for state in states]

        assert perform(conversation) == ([0, 5, 12] if seam.is_http else ["", "5", "57"])

    def test_the_same_question_without_an_act_in_between_has_the_same_answer(self, perform, seam):
        first, again = perform(lambda lane, clock: [lane.ask(seam.large()), lane.ask(seam.large())])
        content = "body" if seam.is_http else "stdout"
        assert getattr(first, content) == getattr(again, content)
        assert first.at <= again.at

    def test_times_of_answers_grow_in_the_order_of_questions(self, perform, seam):
        def conversation(lane, clock):
            return [lane.ask(question).at for question in (seam.count(), seam.wrong(), seam.add(1), seam.large(), seam.count())]

        times = perform(conversation)
        assert times == sorted(times)

    def test_lines_come_in_order_each_with_its_time(self, perform, seam):
        def conversation(lane, clock):
            heard = []
            began = clock.now()
            answer = lane.ask(seam.talk(), lambda line, at: heard.append((line, at)))
            return began, heard, answer

        began, heard, answer = perform(conversation)
        assert [line for line, _ in heard] == ([] if seam.is_http else ["one", "", "three"])
        times = [at for _, at in heard]
        assert [began - 0.002, *times, answer.at + 0.002] == sorted([began - 0.002, *times, answer.at + 0.002])

    def test_closing_twice_is_harmless(self, perform, seam):
        def conversation(lane, clock):
            lane.ask(seam.count())
            lane.close()
            lane.close()
            return "closed"

        assert perform(conversation) == "closed"


@pytest.mark.parametrize("kind", ["in process", tls])
class TestHttp:
    @pytest.mark.parametrize("name", ["text", "large", "list", "none"])
    def test_a_body_is_json_a_text_or_nothing(self, perform, bodies, name):
        assert perform(lambda lane, clock: lane.ask(HttpQuestion.observe("GET", f"/redfish/v1/{name}")).body) == bodies[name]

    def test_header_names_are_in_lower_case(self, perform):
        assert "content-type" in perform(lambda lane, clock: lane.ask(HttpQuestion.observe("GET", "/redfish/v1/list")).headers)

    def test_a_read_may_be_a_post(self, perform):
        def conversation(lane, clock):
            return [lane.ask(HttpQuestion.observe("POST", "/redfish/v1/echo", {"of": of})).body["of"] for of in ("a", "b", "a")]

        assert perform(conversation) == ["a", "b", "a"]


@pytest.mark.parametrize("kind", ["local", ssh, console_shell])
class TestCommands:
    def test_output_that_is_no_utf8_is_escaped(self, perform):
        answer = perform(lambda lane, clock: lane.ask(CommandQuestion.observe("printf", r"\xff ok\n")))
        assert answer.stdout == "\\xff ok\n"

    def test_input_reaches_the_command(self, perform):
        answer = perform(lambda lane, clock: lane.ask(CommandQuestion.observe("cat", stdin="ü\n".encode())))
        assert (answer.stdout, answer.stderr, answer.status) == ("ü\n", "", 0)

    def test_large_output_comes_whole(self, perform):
        answer = perform(lambda lane, clock: lane.ask(CommandQuestion.observe("seq", "20000", name="numbers")))
        assert answer.stdout == "".join(f"{number}\n" for number in range(1, 20001))

    def test_a_missing_program_is_an_answer(self, perform):
        assert perform(lambda lane, clock: lane.ask(CommandQuestion.observe("no-such-program")).status) == 127


def read_until(lane, clock, wanted: bytes) -> tuple[bytes, list[float]]:
    """Read until ``wanted`` has come; what came and the times of its pieces."""
    deadline, heard, times = Deadline.after(clock, 5), b"", []
    while wanted not in heard:
        chunk = lane.read(deadline)
        assert chunk.data, f"heard only {heard!r}"
        heard += chunk.data
        times.append(chunk.at)
    return heard, times


@pytest.mark.parametrize("kind", ["terminal", "serial", "command"])
class TestStreams:
    def test_a_silent_stream_says_nothing_until_the_deadline(self, perform):
        def conversation(lane, clock):
            began = clock.now()
            chunk = lane.read(Deadline.after(clock, 0.1))
            return chunk.data, clock.now() - began, chunk.at - began

        data, passed, at = perform(conversation)
        assert data == b""
        assert 0.1 - 1e-6 <= passed < 1
        assert 0.1 - 1e-6 <= at < 1

    def test_what_is_written_is_answered_in_order(self, perform):
        def conversation(lane, clock):
            answers = []
            for word, answer in ((b"ping\r", b"pong\r\n"), (b"a", b"a"), (b"ping\r", b"pong\r\n")):
                lane.write(word)
                answers.append(read_until(lane, clock, answer)[0])
            return answers

        assert perform(conversation) == [b"pong\r\n", b"a", b"pong\r\n"]

    def test_a_read_ends_as_soon_as_something_has_come(self, perform):
        def conversation(lane, clock):
            lane.write(b"late\r")
            began = clock.now()
            read_until(lane, clock, b"here")
            return clock.now() - began

        assert 0.05 < perform(conversation) < 3

    def test_a_chunk_bears_the_time_at_which_it_came(self, perform):
        def conversation(lane, clock):
            lane.write(b"late\r")
            wrote = clock.now()
            clock.sleep(0.35)
            _, times = read_until(lane, clock, b"here\r\n")
            return [at - wrote for at in times], clock.now() - wrote

        came, passed = perform(conversation)
        assert all(0.05 < each < 0.33 for each in came)
        assert passed >= 0.35

    def test_a_deadline_that_has_passed_still_gives_what_is_there(self, perform):
        def conversation(lane, clock):
            lane.write(b"ping\r")
            clock.sleep(0.2)
            return lane.read(Deadline(clock.now())).data

        assert perform(conversation) in (b"pong\r\n", b"p", b"po", b"pon", b"pong", b"pong\r")

    def test_any_bytes_pass(self, perform):
        every = bytes(range(256)) * 4

        def conversation(lane, clock):
            lane.write(every)
            deadline, heard = Deadline.after(clock, 5), b""
            while len(heard) < len(every):
                chunk = lane.read(deadline)
                assert chunk.data
                heard += chunk.data
            return heard

        assert perform(conversation) == every

    def test_closing_twice_is_harmless(self, perform):
        def conversation(lane, clock):
            lane.write(b"x")
            read_until(lane, clock, b"x")
            lane.close()
            lane.close()
            return "closed"

        assert perform(conversation) == "closed"
