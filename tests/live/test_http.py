from __future__ import annotations

import base64
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from harness.errors import AuthRefused, BenchError, ConfigError, Unreachable, Untrusted, UsageMistake
from harness.live.http import LOST_LOGINS, RedfishHttp
from harness.ports import HttpQuestion
from harness.secret import SecretReference

pytestmark = pytest.mark.socket

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
SESSIONS = "/redfish/v1/SessionService/Sessions"
LOGIN = "POST /redfish/v1/SessionService/Sessions"
ROOT = HttpQuestion.observe("GET", "/redfish/v1/")
LOOK = HttpQuestion.observe("GET", SYSTEM)
CHANGE = HttpQuestion.act("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": {"MmioAbove4Gb": "Enabled"}})
RESET = HttpQuestion.act("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})


class TestTrust:
    def test_the_pinned_certificate_is_accepted_whatever_name_it_bears(self, serve, sessions, lane, certificates):
        shown = certificates("10.9.8.7")
        service = serve(sessions(), shown=shown)
        assert lane(service, pin=shown.pin).ask(LOOK).body == {"path": SYSTEM}

    def test_a_wrong_pin_is_untrusted_and_the_service_sees_no_request(self, serve, sessions, lane, certificate, certificates):
        service = serve(sessions())
        other = certificates("127.0.0.1", nth=1)
        for question in (ROOT, LOOK, RESET):
            with pytest.raises(Untrusted) as caught:
                lane(service, pin=other.pin).ask(question)
            assert certificate.pin in str(caught.value)
            assert other.pin in str(caught.value)
            assert str(caught.value).endswith("nothing was sent")
            assert "\n" not in str(caught.value)
        assert service.connections == 3
        assert service.requests == []

    def test_a_certificate_that_changes_between_two_requests_is_untrusted_before_the_second(
        self, serve, sessions, lane, certificates
    ):
        service = serve(sessions())
        one = lane(service)
        one.ask(LOOK)
        service.serve_with(certificates("127.0.0.1", nth=1))
        seen = len(service.requests)
        with pytest.raises(Untrusted):
            one.ask(RESET)
        one.close()
        assert len(service.requests) == seen, "neither the request nor the logout may reach a stranger"

    def test_a_ca_is_enough_when_chain_and_name_hold(self, serve, sessions, lane, certificate):
        service = serve(sessions())
        assert lane(service, ca=str(certificate.pem)).ask(LOOK).status == 200
        assert lane(f"https://localhost:{service.port}", ca=str(certificate.pem)).ask(LOOK).status == 200

    def test_a_certificate_of_another_ca_is_untrusted(self, serve, sessions, lane, certificates):
        service = serve(sessions())
        with pytest.raises(Untrusted, match="does not hold"):
            lane(service, ca=str(certificates("127.0.0.1", nth=1).pem)).ask(LOOK)
        assert service.requests == []

    def test_a_certificate_for_another_host_is_untrusted(self, serve, sessions, lane, certificates):
        elsewhere = certificates("bmc.example.net")
        service = serve(sessions(), shown=elsewhere)
        with pytest.raises(Untrusted, match="does not hold"):
            lane(service, ca=str(elsewhere.pem)).ask(LOOK)
        assert service.requests == []

    def test_with_pin_and_ca_both_must_hold(self, serve, sessions, lane, certificate, certificates):
        service = serve(sessions())
        other = certificates("127.0.0.1", nth=1)
        assert lane(service, pin=certificate.pin, ca=str(certificate.pem)).ask(LOOK).status == 200
        for pin, ca in ((other.pin, certificate.pem), (certificate.pin, other.pem)):
            seen = len(service.requests)
            with pytest.raises(Untrusted):
                lane(service, pin=pin, ca=str(ca)).ask(LOOK)
            assert len(service.requests) == seen

    def test_without_pin_and_ca_nothing_is_trusted(self, serve, lane):
        service = serve()
        with pytest.raises(Untrusted, match="neither pin nor ca"):
            lane(service, pin="", ca="").ask(ROOT)
        assert service.connections == 0

    @pytest.mark.parametrize(
        ("url", "trust", "key"),
        [
            ("http://127.0.0.1", {"pin": f"sha256:{'0' * 64}"}, "bmc.url"),
            ("https://user@127.0.0.1", {"pin": f"sha256:{'0' * 64}"}, "bmc.url"),
            ("https://127.0.0.1/redfish", {"pin": f"sha256:{'0' * 64}"}, "bmc.url"),
            ("https://127.0.0.1", {"pin": "sha256:12"}, "bmc.pin"),
            ("https://127.0.0.1", {"ca": "/nowhere/ca.pem"}, "bmc.ca"),
            ("https://127.0.0.1", {"ca": __file__}, "bmc.ca"),
        ],
    )
    def test_a_bench_that_cannot_be_meant_names_its_key(self, lane, url, trust, key):
        with pytest.raises(ConfigError) as caught:
            lane(url, **trust).ask(ROOT)
        assert caught.value.key == key

    def test_neither_proxy_nor_netrc_nor_ca_bundle_is_taken_from_the_environment(
        self, serve, sessions, lane, monkeypatch, tmp_path, certificates
    ):
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login mallory password sesame\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates("127.0.0.1", nth=1).pem))
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        service = serve(sessions())
        assert lane(service).ask(LOOK).status == 200
        assert not any("authorization" in request.headers for request in service.requests)


class TestLogin:
    def test_the_service_root_is_asked_without_credentials(self, serve, sessions, lane):
        service = serve(sessions())
        one = lane(service)
        one.ask(ROOT)
        one.ask(HttpQuestion.observe("GET", "/redfish/v1"))
        one.ask(LOOK)
        one.ask(ROOT)
        assert service.lines == ["GET /redfish/v1/", "GET /redfish/v1", LOGIN, f"GET {SYSTEM}", "GET /redfish/v1/"]
        assert ["x-auth-token" in request.headers for request in service.requests] == [False, False, False, True, False]

    def test_one_session_serves_all_questions_and_is_ended_by_close(self, serve, sessions, lane):
        simulated = sessions()
        service = serve(simulated)
        one = lane(service)
        for _ in range(3):
            one.ask(LOOK)
        one.close()
        one.close()
        assert service.lines == [LOGIN, *[f"GET {SYSTEM}"] * 3, "DELETE /redfish/v1/SessionService/Sessions/1"]
        assert simulated.tokens == {}
        assert service.connections == 1

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_wrong_password_is_one_attempt_for_ever(self, serve, sessions, lane, monkeypatch, status, extended_error):
        service = serve(sessions(login=[(status, {}, extended_error("IDRAC.2.8.SYS415"))]))
        one = lane(service)
        with pytest.raises(AuthRefused) as first:
            one.ask(LOOK)
        for question in (LOOK, RESET, ROOT):
            with pytest.raises(AuthRefused) as again:
                one.ask(question)
            assert again.value is first.value
        one.close()
        assert service.lines == [LOGIN]
        assert f"HTTP {status}" in str(first.value)
        assert "IDRAC.2.8.SYS415" in str(first.value)

    def test_the_refusal_says_which_user_and_which_secret_but_not_the_secret(self, serve, sessions, lane, monkeypatch):
        service = serve(sessions())
        monkeypatch.setenv("LOOPBACK_PASSWORD", "swordfish")
        with pytest.raises(AuthRefused) as caught:
            lane(service).ask(LOOK)
        assert "'root'" in str(caught.value)
        assert "environment variable LOOPBACK_PASSWORD" in str(caught.value)
        assert "swordfish" not in str(caught.value)
        assert service.lines == [LOGIN]

    def test_a_missing_secret_is_a_config_error_and_nothing_is_sent(self, serve, lane, clock, certificate, monkeypatch):
        monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
        service = serve()
        one = RedfishHttp(service.url, "root", SecretReference(env="NO_SUCH_SECRET"), clock, pin=certificate.pin)
        with pytest.raises(ConfigError, match="NO_SUCH_SECRET"):
            one.ask(LOOK)
        assert service.requests == []

    def test_the_password_does_not_show_in_the_variables_of_a_traceback(self, serve, lane, password):
        service = serve(lambda request: None)
        with pytest.raises(Unreachable) as caught:
            lane(service).ask(LOOK)
        frames = [entry.frame for entry in caught.traceback if "test_http" not in str(entry.path)]
        shown = "".join(repr(value) for frame in frames for value in frame.f_locals.values())
        assert len(frames) >= 3
        assert password not in shown
        assert json.dumps(password)[1:-1] not in shown

    def test_an_observe_after_a_lost_session_is_asked_again_in_a_new_one_once(self, serve, sessions, lane):
        simulated = sessions()
        service = serve(simulated)
        one = lane(service)
        one.ask(LOOK)
        simulated.end_all()
        assert one.ask(LOOK).status == 200
        assert service.lines == [LOGIN, f"GET {SYSTEM}", f"GET {SYSTEM}", LOGIN, f"GET {SYSTEM}"]

    def test_a_session_that_expires_again_and_again_is_renewed_each_time_with_one_login(self, serve, sessions, lane):
        simulated = sessions()
        service = serve(simulated)
        one = lane(service)
        for _ in range(4):
            assert one.ask(LOOK).status == 200
            simulated.end_all()
        assert one.ask(LOOK).status == 200
        assert simulated.opened == service.lines.count(LOGIN) == 5

    def test_acts_in_sessions_that_are_never_accepted_end_the_lane(self, serve, sessions, lane):
        service = serve(sessions(lambda request: (401, {}, None)))
        one = lane(service)
        for _ in range(4):
            with pytest.raises(AuthRefused):
                one.ask(RESET)
        assert service.lines == [LOGIN, f"POST {RESET.path}"] * 2

    def test_an_observe_that_is_refused_in_the_new_session_too_ends_the_lane(self, serve, sessions, lane):
        service = serve(sessions(lambda request: (401, {}, None)))
        one = lane(service)
        for _ in range(2):
            with pytest.raises(AuthRefused, match="in a new session"):
                one.ask(LOOK)
        assert service.lines == [LOGIN, f"GET {SYSTEM}"] * 2

    def test_a_renewal_with_a_password_changed_meanwhile_is_one_attempt(self, serve, sessions, lane):
        simulated = sessions()
        service = serve(simulated)
        one = lane(service)
        one.ask(LOOK)
        simulated.end_all()
        simulated.password = "changed"
        for _ in range(2):
            with pytest.raises(AuthRefused, match="was refused"):
                one.ask(LOOK)
        assert service.lines.count(LOGIN) == 2

    def test_an_act_after_a_lost_session_is_not_sent_again(self, serve, sessions, lane):
        simulated = sessions()
        service = serve(simulated)
        one = lane(service)
        one.ask(LOOK)
        simulated.end_all()
        with pytest.raises(AuthRefused, match="not sent again"):
            one.ask(RESET)
        assert service.lines == [LOGIN, f"GET {SYSTEM}", f"POST {RESET.path}"]
        assert one.ask(LOOK).status == 200, "the next question may open the renewed session"

    def test_a_403_to_a_later_question_is_an_answer(self, serve, sessions, lane, extended_error):
        body = extended_error("IDRAC.2.8.SYS479")
        service = serve(sessions(lambda request: (403, {}, body)))
        answer = lane(service).ask(CHANGE)
        assert (answer.status, answer.body) == (403, body)

    def test_exhausted_sessions_are_a_bench_error_that_says_so(self, serve, sessions, lane, extended_error):
        service = serve(sessions(login=[(503, {}, extended_error("IDRAC.2.4.RAC0218"))]))
        one = lane(service)
        with pytest.raises(BenchError, match="sessions are exhausted") as caught:
            one.ask(LOOK)
        assert not isinstance(caught.value, Unreachable | AuthRefused)
        assert "held by" not in str(caught.value)
        assert service.lines == [LOGIN, f"GET {SESSIONS}"], "who holds them is asked once, and here not told"
        assert one.ask(LOOK).status == 200

    def test_the_holders_of_exhausted_sessions_are_named_by_one_look(self, serve, lane, password, extended_error):
        held = {"1": ("operator", "192.0.2.7"), "2": ("operator", "192.0.2.7"), "5": ("root", "")}

        def answer(request):
            if request.method == "POST":
                return 503, {}, extended_error("IDRAC.2.4.RAC0218")
            if request.path == SESSIONS:
                return 200, {}, {"Members": [{"@odata.id": f"{SESSIONS}/{number}"} for number in held]}
            number = request.path.rpartition("/")[2]
            user, origin = held[number]
            return 200, {}, {"Id": number, "UserName": user, "ClientOriginIPAddress": origin}

        service = serve(answer)
        one = lane(service)
        named = r"held by operator from 192\.0\.2\.7 \(ids 1, 2\), root \(id 5\); have one"
        for _ in range(2):
            with pytest.raises(BenchError, match=named) as caught:
                one.ask(LOOK)
        assert password not in str(caught.value)
        reads = [request for request in service.requests if request.method == "GET"]
        assert [request.path for request in reads] == [SESSIONS, *(f"{SESSIONS}/{number}" for number in held)], "once a lane"
        basic = f"Basic {base64.b64encode(f'root:{password}'.encode()).decode()}"
        assert {request.headers.get("authorization") for request in reads} == {basic}
        assert {request.headers.get("authorization") for request in service.requests if request.method == "POST"} == {None}

    @pytest.mark.parametrize(
        "members", [None, "x", [], [7], [{"@odata.id": "https://192.0.2.1/redfish/v1/SessionService/Sessions/1"}] * 99]
    )
    def test_a_list_of_holders_that_is_rubbish_costs_few_requests_and_no_word(self, serve, lane, extended_error, members):
        service = serve(
            lambda request: (503, {}, extended_error("RAC0218")) if request.method == "POST" else (200, {}, {"Members": members})
        )
        with pytest.raises(BenchError, match="sessions are exhausted; log out of its web pages"):
            lane(service).ask(LOOK)
        assert len(service.requests) <= 10

    @pytest.mark.parametrize(("status", "ids"), [(503, ()), (500, ("IDRAC.2.8.SYS518",)), (400, ("IDRAC.2.8.SWC0700",))])
    def test_a_service_that_is_not_ready_to_log_in_is_unreachable_for_now(self, serve, sessions, lane, extended_error, status, ids):
        service = serve(sessions(login=[(status, {}, extended_error(*ids) if ids else None)]))
        one = lane(service)
        with pytest.raises(Unreachable, match="not ready"):
            one.ask(LOOK)
        assert one.ask(LOOK).status == 200
        assert service.lines.count(LOGIN) == 2

    @pytest.mark.parametrize("reply", [(201, {"Location": "/x"}, {}), (307, {"Location": "/elsewhere"}, None), (400, {}, None)])
    def test_a_login_without_a_token_is_a_bench_error(self, serve, sessions, lane, reply):
        service = serve(sessions(login=[reply]))
        with pytest.raises(BenchError, match=f"no session was opened: HTTP {reply[0]}"):
            lane(service).ask(LOOK)
        assert service.lines == [LOGIN]

    @pytest.mark.parametrize("status", [404, 405])
    def test_old_firmware_is_logged_in_at_its_own_path(self, serve, lane, status):
        def answer(request):
            if request.line == LOGIN:
                return status, {}, None
            if request.line == "POST /redfish/v1/Sessions":
                return 201, {"X-Auth-Token": "old", "Location": "/redfish/v1/Sessions/7"}, None
            return 200, {}, {"token": request.headers.get("x-auth-token")}

        service = serve(answer)
        one = lane(service)
        assert one.ask(LOOK).body == {"token": "old"}
        one.close()
        assert service.lines == [LOGIN, "POST /redfish/v1/Sessions", f"GET {SYSTEM}", "DELETE /redfish/v1/Sessions/7"]

    def test_lost_logins_do_not_fill_the_session_table(self, serve, lane):
        service = serve(lambda request: None)
        one = lane(service)
        for _ in range(LOST_LOGINS):
            with pytest.raises(Unreachable):
                one.ask(LOOK)
        with pytest.raises(BenchError, match="never answered"):
            one.ask(LOOK)
        assert service.lines == [LOGIN] * LOST_LOGINS

    def test_logins_that_were_never_sent_do_not_count_as_lost(self, serve, lane):
        service = serve()
        service.stop()
        one = lane(service)
        for _ in range(LOST_LOGINS + 1):
            with pytest.raises(Unreachable, match="nothing was sent"):
                one.ask(LOOK)

    def test_the_session_is_ended_on_our_own_host_wherever_the_service_points(self, serve, lane):
        stranger = serve(lambda request: (200, {}, None))

        def answer(request):
            if request.line == LOGIN:
                return 201, {"X-Auth-Token": "abc", "Location": f"{stranger.url}/redfish/v1/SessionService/Sessions/5"}, None
            return 204, {}, None

        service = serve(answer)
        one = lane(service)
        one.ask(LOOK)
        one.close()
        assert service.lines[-1] == "DELETE /redfish/v1/SessionService/Sessions/5"
        assert stranger.connections == 0

    def test_a_session_without_location_is_ended_by_its_odata_id(self, serve, lane):
        def answer(request):
            if request.line == LOGIN:
                return 201, {"X-Auth-Token": "abc"}, {"@odata.id": "/redfish/v1/SessionService/Sessions/9"}
            return 200, {}, None

        service = serve(answer)
        one = lane(service)
        one.ask(LOOK)
        one.close()
        assert service.lines[-1] == "DELETE /redfish/v1/SessionService/Sessions/9"

    def test_a_session_without_any_place_is_found_in_the_list_as_the_users_only_one(self, serve, lane):
        service = serve(_placeless({"1": "ann", "2": "root"}))
        one = lane(service)
        one.ask(LOOK)
        one.close()
        assert service.lines[-1] == "DELETE /redfish/v1/SessionService/Sessions/2"
        assert one.loose_end() == ""

    @pytest.mark.parametrize("users", [{"1": "root", "2": "root"}, {"1": "ann"}, {"1": None}])
    def test_a_session_that_cannot_be_proven_ours_is_left_alone_and_said(self, serve, lane, users):
        service = serve(_placeless(users))
        one = lane(service)
        one.ask(LOOK)
        one.close()
        assert not [line for line in service.lines if line.startswith("DELETE")]
        assert "one session of user 'root' may stay open" in one.loose_end()

    @pytest.mark.parametrize(
        "place", ["https://[::bad/", "/elsewhere", "", "/redfish/v1/SessionService/Sessions", "//redfish/v1/x"]
    )
    def test_an_odd_location_gives_way_to_the_id_in_the_body(self, serve, lane, place):
        def answer(request):
            if request.line == LOGIN:
                return 201, {"X-Auth-Token": "abc", "Location": place}, {"Id": "9"}
            return 200, {}, None

        service = serve(answer)
        one = lane(service)
        one.ask(LOOK)
        one.close()
        assert service.lines[-1] == "DELETE /redfish/v1/SessionService/Sessions/9"
        assert one.loose_end() == ""


def _placeless(users):
    """A service whose login names no place, with these sessions and their users."""

    def answer(request):
        if request.line == LOGIN:
            return 201, {"X-Auth-Token": "abc"}, None
        if request.line == f"GET {LOGIN.removeprefix('POST ')}":
            return 200, {}, {"Members": [{"@odata.id": f"{request.path}/{name}"} for name in users]}
        return 200, {}, {"UserName": users.get(request.path.rpartition("/")[2], "")}

    return answer


class TestClose:
    def test_ctrl_c_within_a_login_is_said_because_its_session_may_open_all_the_same(self, serve, sessions, lane, monkeypatch):
        service = serve(sessions())
        one = lane(service)

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("harness.live.transport.GuardedSocket.recv_into", interrupted)
            with pytest.raises(KeyboardInterrupt):
                one.ask(LOOK)
        one.close()
        assert "one session of user 'root' may stay open" in one.loose_end()
        assert "30 minutes" in one.loose_end()

    def test_a_session_that_was_seen_to_end_is_no_loose_end(self, serve, sessions, lane):
        one = lane(serve(sessions()))
        one.ask(LOOK)
        one.close()
        assert one.loose_end() == ""

    def test_a_logout_that_is_refused_or_lost_is_a_loose_end(self, serve, sessions, lane):
        simulated = sessions()
        for reply in ((500, {}, None), None):
            one = lane(serve(lambda request, reply=reply: reply if request.method == "DELETE" else simulated(request)))
            one.ask(LOOK)
            one.close()
            assert "may stay open" in one.loose_end()

    def test_close_without_a_question_sends_nothing(self, serve, lane):
        service = serve()
        lane(service).close()
        assert service.connections == 0

    def test_close_ends_the_session_after_errors(self, serve, sessions, lane):
        simulated = sessions(lambda request: None)
        service = serve(simulated)
        one = lane(service)
        with pytest.raises(Unreachable):
            one.ask(LOOK)
        one.close()
        assert service.lines == [LOGIN, f"GET {SYSTEM}", "DELETE /redfish/v1/SessionService/Sessions/1"]
        assert simulated.tokens == {}

    def test_close_never_raises(self, serve, sessions, lane):
        service = serve(sessions())
        one = lane(service)
        one.ask(LOOK)
        service.stop()
        one.close()

    def test_a_closed_lane_opens_no_new_session(self, serve, sessions, lane):
        service = serve(sessions())
        one = lane(service)
        one.ask(LOOK)
        one.close()
        with pytest.raises(Unreachable, match="closed"):
            one.ask(LOOK)
        assert service.lines.count(LOGIN) == 1

    def test_the_session_is_ended_after_ctrl_c_within_a_question(self, serve, sessions, lane, monkeypatch):
        simulated = sessions()
        service = serve(simulated)
        one = lane(service)
        one.ask(LOOK)

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("harness.live.transport.GuardedSocket.recv_into", interrupted)
            with pytest.raises(KeyboardInterrupt):
                one.ask(LOOK)
        one.close()
        assert service.lines[-1] == "DELETE /redfish/v1/SessionService/Sessions/1"
        assert simulated.tokens == {}


class TestSentOnce:
    @pytest.mark.parametrize("question", [LOOK, CHANGE, RESET, HttpQuestion.act("DELETE", f"{SYSTEM}/Jobs/1")])
    def test_a_request_is_sent_once_when_the_connection_drops(self, serve, sessions, lane, question):
        service = serve(sessions(lambda request: None))
        with pytest.raises(Unreachable, match="lost before the answer; it had been sent") as caught:
            lane(service).ask(question)
        assert service.lines == [LOGIN, question.key]
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    @pytest.mark.parametrize("status", [500, 502, 503, 429])
    def test_an_error_status_is_answered_not_retried(self, serve, sessions, lane, status):
        service = serve(sessions(lambda request: (status, {"Retry-After": "0"}, None)))
        answer = lane(service).ask(RESET)
        assert (answer.status, answer.body, answer.headers["retry-after"]) == (status, None, "0")
        assert service.lines == [LOGIN, RESET.key]

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize("question", [LOOK, RESET])
    def test_a_redirect_is_an_answer_and_is_not_followed(self, serve, sessions, lane, status, question):
        stranger = serve(lambda request: (200, {}, {"stranger": True}))
        service = serve(sessions(lambda request: (status, {"Location": f"{stranger.url}/redfish/v1/caught"}, None)))
        answer = lane(service).ask(question)
        assert (answer.status, answer.headers["location"]) == (status, f"{stranger.url}/redfish/v1/caught")
        assert service.lines == [LOGIN, question.key]
        assert stranger.connections == 0

    def test_a_redirect_to_nonsense_is_an_answer_too(self, serve, sessions, lane):
        service = serve(sessions(lambda request: (302, {"Location": "https://[::bad/"}, None)))
        assert lane(service).ask(LOOK).status == 302

    def test_cookies_of_the_service_are_not_sent_back(self, serve, sessions, lane):
        service = serve(sessions(lambda request: (200, {"Set-Cookie": "session=abc; Path=/"}, {})))
        one = lane(service)
        assert "set-cookie" not in one.ask(LOOK).headers
        one.ask(LOOK)
        assert "cookie" not in service.requests[-1].headers

    @pytest.mark.parametrize(
        ("question", "problem"),
        [
            (HttpQuestion.act("PUT", SYSTEM, {}), "method"),
            (HttpQuestion.observe("GET", "redfish/v1/Systems"), "slash"),
            (HttpQuestion.observe("GET", "@stranger/redfish/v1"), "slash"),
            (HttpQuestion.observe("GET", "//stranger/redfish/v1"), "slash"),
            (HttpQuestion.observe("GET", f"{SYSTEM}?$filter=Uri eq 'http://x'"), "%2F"),
            (HttpQuestion.observe("GET", SYSTEM, {}), "body"),
            (HttpQuestion.act("POST", SYSTEM, "text"), "body"),
        ],
    )
    def test_a_question_that_the_library_would_change_is_refused(self, serve, lane, question, problem):
        service = serve()
        with pytest.raises(UsageMistake, match=problem):
            lane(service).ask(question)
        assert service.connections == 0


class TestUnreachable:
    def test_a_refused_connection_says_so_in_one_line(self, serve, lane):
        service = serve()
        service.stop()
        with pytest.raises(Unreachable) as caught:
            lane(service).ask(ROOT)
        assert str(caught.value) == f"{service.url}: GET /redfish/v1/: connection refused; nothing was sent"

    def test_an_unknown_host_name_says_so(self, lane, monkeypatch):
        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(Unreachable, match="host name is not known"):
            lane("https://no-such-host.invalid").ask(ROOT)

    def test_the_timeout_of_the_question_holds_when_nothing_comes(self, serve, sessions, lane):
        over = threading.Event()
        service = serve(sessions(lambda request: over.wait(10) and None))
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer in time; it had been sent"):
            lane(service).ask(HttpQuestion.observe("GET", SYSTEM, timeout=0.3))
        over.set()
        assert 0.25 < time.monotonic() - began < 2
        assert service.lines == [LOGIN, f"GET {SYSTEM}"]

    @pytest.mark.parametrize("every", [0.05, 0.4])
    @pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
    def test_the_timeout_of_the_question_holds_when_bytes_drip(self, serve, sessions, lane, start, every):
        over = threading.Event()

        def drip() -> Iterator[bytes]:
            yield start or b"HTTP/1.1 200 OK\r\nX-Endless: "
            while not over.wait(every):
                yield b"x"

        service = serve(sessions(lambda request: drip()))
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer in time"):
            lane(service).ask(HttpQuestion.observe("GET", SYSTEM, timeout=0.5))
        took = time.monotonic() - began
        over.set()
        assert took < 0.75, "a byte does not begin the timeout anew"

    def test_an_answer_that_breaks_off_is_unreachable(self, serve, sessions, lane):
        service = serve(sessions(lambda request: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"])))
        with pytest.raises(Unreachable, match="lost within the answer"):
            lane(service).ask(RESET)
        assert service.lines == [LOGIN, RESET.key]

    def test_what_is_not_http_is_unreachable(self, serve, sessions, lane):
        service = serve(sessions(lambda request: iter([b"SSH-2.0-OpenSSH_9.2\r\n"])))
        with pytest.raises(Unreachable, match="not HTTP"):
            lane(service).ask(LOOK)

    def test_what_is_not_tls_is_unreachable(self, lane):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def speak_plainly() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.recv(4096)

            thread = threading.Thread(target=speak_plainly)
            thread.start()
            with pytest.raises(Unreachable, match="no TLS connection could be made; nothing was sent"):
                lane(f"https://127.0.0.1:{listener.getsockname()[1]}").ask(ROOT)
            thread.join()

    def test_a_connection_that_the_service_closed_while_idle_is_opened_anew(self, serve, sessions, lane):
        service = serve(sessions())
        one = lane(service)
        one.ask(LOOK)
        service.drop_connections()
        time.sleep(0.05)
        assert one.ask(RESET).status == 200
        assert service.connections == 2


class TestAnswers:
    def test_headers_are_lower_case_without_the_private_ones(self, serve, sessions, lane):
        headers = {
            "ETag": '"1"',
            "Location": "/redfish/v1/JobID_1",
            "X-Auth-Token": "t",
            "Set-Cookie": "c=1",
            "Authorization": "Basic x",
        }
        service = serve(sessions(lambda request: (202, headers, None)))
        answer = lane(service).ask(CHANGE)
        assert answer.headers == {"content-length": "0", "etag": '"1"', "location": "/redfish/v1/JobID_1"}

    @pytest.mark.parametrize(
        ("content", "body"),
        [
            (b'{"a": [1, null]}', {"a": [1, None]}),
            (b"[]", []),
            (b"", None),
            (b"<html>busy</html>", "<html>busy</html>"),
            (b"\xff busy", "\\xff busy"),
            (b"[" * 100_000, "[" * 100_000),
        ],
    )
    def test_a_body_is_json_or_text_or_none(self, serve, sessions, lane, content, body):
        service = serve(sessions(lambda request: (503, {}, content)))
        assert lane(service).ask(LOOK).body == body

    def test_a_body_is_sent_as_json(self, serve, sessions, lane):
        service = serve(sessions())
        one = lane(service)
        one.ask(CHANGE)
        one.ask(HttpQuestion.act("POST", f"{SYSTEM}/Actions/Empty", {}))
        assert service.requests[1].body == CHANGE.body
        assert service.requests[1].headers["content-type"] == "application/json"
        assert service.requests[2].body == {}

    def test_a_query_arrives_as_it_was_written(self, serve, sessions, lane):
        service = serve(sessions())
        path = f"{SYSTEM}/Memory?$expand=*($levels=1)&$select=Name,Status"
        lane(service).ask(HttpQuestion.observe("GET", path))
        assert service.lines[-1] == f"GET {path}"

    def test_a_head_has_no_body(self, serve, sessions, lane):
        service = serve(sessions())
        answer = lane(service).ask(HttpQuestion.observe("HEAD", SYSTEM))
        assert (answer.status, answer.body) == (200, None)

    def test_at_and_took_are_the_clocks_and_leave_the_login_out(self, serve, sessions, lane, clock):
        simulated = sessions()

        def slow_login(request):
            if request.line == LOGIN:
                time.sleep(0.3)
            return simulated(request)

        service = serve(slow_login)
        before = clock.now()
        answer = lane(service).ask(LOOK)
        assert before + 0.3 <= answer.at <= clock.now()
        assert 0 < answer.took < 0.3


class TestSilence:
    def test_no_secret_is_in_any_log_at_any_level(self, serve, sessions, lane, caplog, password):
        caplog.set_level(logging.DEBUG)
        for name in ("redfish", "redfish.rest.v1", "urllib3", "requests"):
            caplog.set_level(logging.DEBUG, logger=name)
        simulated = sessions(lambda request: (200, {"X-Auth-Token": "renewed"}, b"not json"))
        service = serve(simulated)
        one = lane(service)
        one.ask(LOOK)
        one.ask(CHANGE)
        tokens = list(simulated.tokens)
        one.close()
        assert len(tokens) == 1
        assert any(record.name.startswith("urllib3") for record in caplog.records), "the log was really on"
        text = "\n".join(f"{record.getMessage()} {record.args}" for record in caplog.records)
        for secret in (*tokens, "renewed", password, json.dumps(password)[1:-1], password.split('"')[2], "Authorization"):
            assert secret not in text
        assert not [record for record in caplog.records if record.name.startswith("redfish")]

    def test_the_librarys_import_leaves_everybodys_warnings_alone(self):
        program = (
            "import warnings; before = list(warnings.filters)\n"
            "from harness.live.http import _library; _library()\n"
            "assert warnings.filters == before, warnings.filters"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=30)

    def test_importing_the_adapter_imports_neither_redfish_nor_requests(self):
        program = "import sys, harness.live.http; print([m for m in ('redfish', 'requests', 'urllib3') if m in sys.modules])"
        done = subprocess.run([sys.executable, "-c", program], check=True, timeout=30, capture_output=True, text=True)
        assert done.stdout.strip() == "[]"

    def test_making_a_lane_does_nothing(self, clock):
        with warnings.catch_warnings(record=True) as caught:
            RedfishHttp("nonsense", "root", SecretReference(file="/nowhere"), clock)
        assert caught == []
