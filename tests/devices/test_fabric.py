import pytest

from harness.devices.fabric import GPU_INFO, PREDEVICE, Fabric, FabricPart
from harness.errors import DeviceError
from harness.ports import Effect, HttpAnswer


class Controller:
    def __init__(self, body, status=200):
        self.body, self.status, self.asked = body, status, []

    def ask(self, question, on_line=None):
        self.asked.append(question)
        return HttpAnswer(self.status, {}, self.body, 0.0, 0.0)

    def close(self):
        pass


def envelope(*data, code=0, errors=None):
    return {"response": {"code": code, "errors": errors, "data": list(data)}}


def entry(**fields):
    return {"slot": "jbogA/slot01", "serial_num": "4711", "mname": "r640-07", "model": "Quadro RTX 8000", **fields}


def test_a_part_is_read_with_slot_serial_owner_and_model():
    controller = Controller(envelope(entry()))
    assert Fabric(controller).parts() == (FabricPart("jbogA/slot01", "4711", "r640-07", "Quadro RTX 8000"),)
    assert [(question.effect, question.key) for question in controller.asked] == [(Effect.OBSERVE, f"GET {GPU_INFO}")]


def test_parts_are_sorted_by_slot_and_include_the_neighbours():
    body = envelope(entry(slot="jbogB/slot02", mname="r640-08"), entry(slot="jbogA/slot03"), entry(slot="jbogA/slot01"))
    parts = Fabric(Controller(body)).parts()
    assert [part.slot for part in parts] == ["jbogA/slot01", "jbogA/slot03", "jbogB/slot02"]
    assert parts[2].owner == "r640-08"


@pytest.mark.parametrize("free", ["n/a", "N/A", "-1", "", None])
def test_a_free_part_has_no_owner(free):
    assert Fabric(Controller(envelope(entry(mname=free)))).parts()[0].owner == ""


def test_a_missing_field_is_an_empty_word():
    assert Fabric(Controller(envelope({"serial_num": 4711}))).parts() == (FabricPart("", "4711"),)


def test_a_fabric_without_parts_has_none():
    assert Fabric(Controller(envelope())).parts() == ()


def test_nothing_is_remembered_between_calls():
    controller = Controller(envelope(entry()))
    fabric = Fabric(controller)
    fabric.parts()
    controller.body = envelope()
    assert fabric.parts() == ()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (envelope(code=7, errors=["fabric is busy"]), 200, "code 7: fabric is busy"),
        (envelope(code=1), 200, "code 1"),
        (envelope(errors=["try again"]), 503, "HTTP 503: try again"),
        ("<html>", 502, "HTTP 502"),
        ("<html>", 200, "no response envelope"),
        ({"response": None}, 200, "no response envelope"),
        ({"response": {"code": 0, "data": {"a": 1}}}, 200, "no list of parts"),
        ({"response": {"code": 0, "data": ["gpu0"]}}, 200, "no list of parts"),
        (None, 200, "no response envelope"),
    ],
)
def test_a_refusal_or_nonsense_is_one_clear_line(body, status, words):
    with pytest.raises(DeviceError, match=r"^fabric: GET") as caught:
        Fabric(Controller(body, status)).parts()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_part_has_its_controllers_own_location_and_vendor():
    (part,) = Fabric(
        Controller(envelope(entry(slot="", location={"rack": 1, "shelf": 2, "node": 7}, vid="0x10DE", did="0x1e78")))
    ).parts()
    assert (part.location, part.place) == ("rack1-shelf2/node07", "rack1-shelf2/node07")
    assert (part.id, part.vendor) == ("10de:1e78", "10de")


@pytest.mark.parametrize("ids", [{}, {"vid": "0x10de"}, {"vid": "NVIDIA", "did": "0x1e78"}, {"vid": "0x10de", "did": "0x123456"}])
def test_ids_that_are_none_are_an_empty_word(ids):
    part = Fabric(Controller(envelope(entry(**ids)))).parts()[0]
    assert (part.id, part.vendor) == ("", "")


@pytest.mark.parametrize("location", [None, {}, {"rack": 1, "shelf": 2}, {"rack": 1, "shelf": 2, "node": "x"}, [1, 2, 3], "r1"])
def test_a_location_that_is_none_is_an_empty_word(location):
    assert Fabric(Controller(envelope(entry(location=location)))).parts()[0].location == ""


class TwoLists(Controller):
    """Gives the parts without owners, and who has what in another list, as published of Liqid's Director."""

    def ask(self, question, on_line=None):
        self.asked.append(question)
        return HttpAnswer(200, {}, self.body[question.path], 0.0, 0.0)


def test_owners_come_from_the_second_list_where_the_first_has_none():
    info = [{"name": f"gpu{number}", "serial_num": f"47{number}"} for number in range(3)]
    owned = [
        {"name": "gpu0", "mname": "r640-07"},
        {"name": "gpu1", "mname": "n/a", "mach_id": "n/a"},
        {"name": "nvme0", "mname": "x"},
    ]
    controller = TwoLists({GPU_INFO: envelope(*info), PREDEVICE: envelope(*owned)})
    assert {part.serial: part.owner for part in Fabric(controller).parts()} == {"470": "r640-07", "471": "", "472": ""}
    assert [(question.effect, question.path) for question in controller.asked] == [
        (Effect.OBSERVE, GPU_INFO),
        (Effect.OBSERVE, PREDEVICE),
    ]


def test_a_second_list_that_is_none_is_named():
    with pytest.raises(DeviceError, match=f"GET {PREDEVICE}: its data is no list"):
        Fabric(TwoLists({GPU_INFO: envelope({"name": "gpu0"}), PREDEVICE: {"response": {"code": 0, "data": 7}}})).parts()
