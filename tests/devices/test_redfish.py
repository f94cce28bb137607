from __future__ import annotations

import pytest

from harness.devices.redfish import PATIENCE, dig, explain, follow, messages, suffix
from harness.errors import AuthRefused, DeviceError, RedfishError, Unreachable, Unreadable

# shapes of bodies as they have been seen in the field; the texts are ours
LISTED = {
    "error": {
        "@Message.ExtendedInfo": [
            {
                "Message": "committed already",
                "MessageArgs": ["HttpDev1EnDis"],
                "MessageId": "IDRAC.2.14.SYS011",
                "RelatedProperties": ["#/Attributes/HttpDev1EnDis"],
                "Severity": "Warning",
            }
        ],
        "code": "Base.1.18.GeneralError",
        "message": "see ExtendedInfo",
    }
}
SINGLE = {"error": {"@Message.ExtendedInfo": {"Message": "not ready", "MessageId": "IDRAC.1.6.SWC0700"}}}
OBJECT = {"error": {"code": "1", "message": {"lang": "en-us", "value": "no such address"}}}
ANNOTATED = {"Attributes@Message.ExtendedInfo": [{"MessageId": "Base.1.0.PropertyValueNotInList", "Severity": "Warning"}]}
DONE = {"@Message.ExtendedInfo": [{"MessageId": "Base.1.2.Success", "Severity": "OK"}, {"MessageId": "IDRAC.1.6.SYS413"}]}


def test_only_the_suffix_of_a_message_id_counts():
    assert suffix("IDRAC.2.9.PR19") == suffix("PR19") == "PR19"
    assert suffix(None) == ""


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        (LISTED, ["SYS011"]),
        (SINGLE, ["SWC0700"]),
        (OBJECT, []),
        (ANNOTATED, ["PropertyValueNotInList"]),
        (DONE, ["Success", "SYS413"]),
        ({"error": {"@Message.ExtendedInfo": "just a text"}}, [""]),
        ({"error": "just a text"}, []),
        ("<html>busy</html>", []),
        (None, []),
        ([1, 2], []),
    ],
)
def test_extended_info_is_found_in_every_shape_that_was_seen(body, ids):
    assert [message.suffix for message in messages(body)] == ids


def test_a_message_keeps_what_it_is_about():
    (message,) = messages(LISTED)
    assert message.arguments == ("HttpDev1EnDis",)
    assert message.related == ("#/Attributes/HttpDev1EnDis",)
    assert message.is_refusal


def test_an_error_text_that_is_an_object_is_explained():
    assert explain(OBJECT) == "no such address"
    assert explain("<html>\n busy </html>") == "<html> busy </html>"
    assert explain(None) == ""


def test_digging_stops_where_the_way_ends():
    assert dig({"a": [{"b": 1}]}, "a", 0, "b") == 1
    assert dig({"a": [{"b": 1}]}, "a", 3, "b") is None
    assert dig("text", "a") is None
    assert dig(None, "a") is None


def test_a_missing_link_is_named_with_its_resource():
    with pytest.raises(DeviceError, match="/redfish/v1 has no link Systems"):
        follow({}, "/redfish/v1", "Systems")


def test_an_error_status_is_raised_with_its_ids(script):
    redfish, _ = script({"GET /x": [(400, LISTED)]})
    with pytest.raises(RedfishError) as raised:
        redfish.get("/x")
    assert raised.value.status == 400
    assert raised.value.message_ids == ("IDRAC.2.14.SYS011",)
    assert "committed already" in str(raised.value)


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_end_at_once(script, status):
    redfish, lane = script({"GET /x": [(status, None)]})
    with pytest.raises(AuthRefused, match=f"HTTP {status}"):
        redfish.get("/x")
    assert len(lane.asked) == 1


@pytest.mark.parametrize("refusal", [(400, SINGLE), (503, None), (503, "")])
def test_a_read_that_is_answered_not_ready_is_asked_again(script, refusal):
    redfish, lane = script({"GET /x": [refusal, refusal, (200, {"Id": "x"})]})
    assert redfish.get("/x") == {"Id": "x"}
    assert len(lane.asked) == 3
    assert redfish.refusals == 2


def test_a_read_that_is_never_ready_ends_after_its_patience(script, clock):
    redfish, _ = script({"GET /x": [(400, SINGLE)]})
    with pytest.raises(RedfishError, match="SWC0700"):
        redfish.get("/x")
    assert PATIENCE <= clock.now() <= PATIENCE + 10


def test_used_up_sessions_are_not_hammered(script):
    body = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.4.RAC0218", "Message": "all sessions in use"}]}}
    redfish, lane = script({"GET /x": [(503, body)]})
    with pytest.raises(RedfishError, match="RAC0218"):
        redfish.get("/x")
    assert len(lane.asked) == 1


@pytest.mark.parametrize("refusal", [(400, SINGLE), (503, None)])
def test_an_act_is_asked_once_even_where_the_service_is_not_ready(script, refusal):
    redfish, lane = script({"PATCH /x": [refusal, (200, DONE)]})
    with pytest.raises(RedfishError):
        redfish.act("PATCH", "/x", {})
    assert len(lane.asked) == 1


def test_an_act_is_asked_once_where_the_connection_is_lost(script):
    redfish, lane = script({"PATCH /x": [(0, Unreachable("dropped")), (200, DONE)]})
    with pytest.raises(Unreachable):
        redfish.act("PATCH", "/x", {})
    assert len(lane.asked) == 1


def test_an_act_that_is_answered_200_with_a_refusal_was_refused(script):
    redfish, _ = script({"PATCH /x": [(200, LISTED)]})
    with pytest.raises(RedfishError, match="HTTP 200"):
        redfish.act("PATCH", "/x", {})


def test_an_act_that_is_answered_200_with_success_was_done(script):
    redfish, _ = script({"PATCH /x": [(200, DONE)]})
    assert redfish.act("PATCH", "/x", {}).status == 200


def test_a_collection_is_read_page_after_page(script):
    redfish, _ = script(
        {"GET /c": {"Members": [{"n": 1}], "Members@odata.nextLink": "/c?$skip=1"}, "GET /c?$skip=1": {"Members": [{"n": 2}]}}
    )
    assert [member["n"] for member in redfish.members("/c")] == [1, 2]


@pytest.mark.parametrize("body", [None, {}, [], "<html>busy</html>", '{"cut": ', 7])
def test_a_resource_that_says_nothing_is_unreadable_and_not_empty(script, body):
    redfish, _ = script({"GET /redfish/v1/x": [(200, body)]})
    with pytest.raises(Unreadable, match=r"GET /redfish/v1/x: HTTP 200 with .* cannot be told"):
        redfish.get("/redfish/v1/x")


def test_an_error_body_with_status_200_is_a_refusal_of_a_read_too(script):
    redfish, _ = script({"GET /redfish/v1/x": LISTED})
    with pytest.raises(RedfishError, match=r"HTTP 200 .IDRAC.2.14.SYS011"):
        redfish.get("/redfish/v1/x")


@pytest.mark.parametrize(
    "page", [{"Name": "x"}, {"Members": None}, {"Members": {}}, {"Members": [None]}, {"Members": ["/redfish/v1/y"]}]
)
def test_a_collection_without_a_list_of_members_is_unreadable_and_not_empty(script, page):
    redfish, _ = script({"GET /redfish/v1/x": page})
    with pytest.raises(Unreadable, match="cannot be told"):
        tuple(redfish.members("/redfish/v1/x"))


def test_a_page_that_leads_elsewhere_or_nowhere_is_unreadable(script):
    for onward in ("https://elsewhere/redfish/v1/x", 5, "x"):
        redfish, lane = script({"GET /redfish/v1/x": {"Members": [], "Members@odata.nextLink": onward}})
        with pytest.raises(Unreadable):
            tuple(redfish.members("/redfish/v1/x"))
        assert len(lane.asked) == 1


def test_pages_are_followed_to_their_end_and_an_empty_queue_is_empty(script):
    redfish, _ = script(
        {
            "GET /redfish/v1/x": {"Members": [{"Id": "1"}], "Members@odata.nextLink": "/redfish/v1/x?$skip=1"},
            "GET /redfish/v1/x?$skip=1": {"Members": [{"Id": "2"}], "Members@odata.nextLink": None},
            "GET /redfish/v1/y": {"Members": []},
        }
    )
    assert [member["Id"] for member in redfish.members("/redfish/v1/x")] == ["1", "2"]
    assert tuple(redfish.members("/redfish/v1/y")) == ()
