"""Pseudonyms keep the form of a name, hide it everywhere, and change nothing of what a tape says."""

import base64
import json
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import TapeError
from harness.ports import Effect
from harness.tape.events import CommandReply, Exchange, HttpReply, Traffic
from harness.tape.format import Tape, TapeInfo, write_tape
from harness.tape.pseudonyms import Pseudonyms, write_pseudonymous

INFO = TapeInfo(
    bench="r640-07", platform="p", source="hardware", recorded_at="2026-12-01T00:00:00+00:00", harness="0.1.0",
    stages=("bmc",), lanes=("bmc", "host", "console"), identity={"service_tag": "ABC1234", "bios": "2.21.2"},
)  # fmt: skip
SYSTEM = {
    "SKU": "ABC1234",
    "SerialNumber": "CNFCP0096H01B7",
    "UUID": "4c4c4544-0041-4210-8043-b2c04f313233",
    "HostName": "gpu-node-17",
    "Model": "PowerEdge R640",
    "Ports": [{"MACAddress": "D0:94:66:3F:21:0A", "IPv4Addresses": [{"Address": "10.3.112.7", "SubnetMask": "255.255.255.0"}]}],
}


def form(text):
    return re.sub("[a-z]", "x", re.sub("[A-Z]", "X", re.sub("[0-9]", "9", text)))


def exchange(key, body, at=0.0):
    return Exchange(at, "bmc", "GET", key, Effect.OBSERVE, None, 0.1, HttpReply(200, {"location": f"{key}/ABC1234"}, body))


def command(key, stdout, at=0.0):
    return Exchange(at, "host", "run", key, Effect.OBSERVE, None, 0.1, CommandReply(0, stdout, ""))


@pytest.fixture
def written(tmp_path):
    """Write a tape of these events on one track, with pseudonyms; all of its text, and the tape."""

    def write(*events):
        write_tape(tmp_path / "real", INFO, {"session/contact": events})
        write_pseudonymous(Tape.open(tmp_path / "real"), tmp_path / "hidden")
        files = [path for path in sorted((tmp_path / "hidden").rglob("*")) if path.is_file()]
        return "\n".join(path.read_text() for path in files), Tape.open(tmp_path / "hidden")

    return write


@given(st.from_regex(r"[A-Z]{2,4}[0-9]{3,9}[a-z0-9]{0,4}", fullmatch=True))
def test_a_serial_number_keeps_its_form_and_is_another(serial):
    names = Pseudonyms()
    names.add(serial, "serial number")
    assert form(names.text(serial)) == form(serial)
    assert names.text(serial) != serial


@given(st.integers(0, 2**48 - 1), st.sampled_from([":", "-", ""]), st.booleans())
def test_a_mac_address_stays_one_however_it_is_written(number, mark, upper):
    mac = mark.join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))
    names = Pseudonyms()
    names.add(mac, "MAC address")
    bare = re.sub("[:-]", "", mac)
    made = names.text(bare.upper() if upper else bare)
    assert re.fullmatch("[0-9a-f]{12}", made.lower())
    assert int(made[:2], 16) & 3 == 2  # locally administered, one machine
    spelled = ":".join(made[at : at + 2] for at in range(0, 12, 2)).lower()
    assert names.text(":".join(bare[at : at + 2] for at in range(0, 12, 2))) == spelled


@given(st.uuids(version=4))
def test_a_uuid_keeps_version_and_variant(name):
    names = Pseudonyms()
    names.learn({"uuid": f"GPU-{name}"})
    made = names.text(f"GPU-{name}")
    assert made.startswith("GPU-")
    other = uuid.UUID(made.removeprefix("GPU-"))
    assert (other.version, other.variant) == (name.version, name.variant)
    assert other != name
    assert names.text(str(name).upper()) == str(other).upper()


def test_no_two_names_share_a_pseudonym_and_none_gets_another_s_name():
    names = Pseudonyms()
    serials = [f"SN{number:05}" for number in range(3000)]
    for serial in serials:
        names.add(serial, "serial number")
    made = [names.text(serial) for serial in serials]
    assert len(set(made)) == len(serials)


def test_another_tape_has_other_pseudonyms_of_the_same_machine():
    one, other = Pseudonyms(), Pseudonyms()
    for names in (one, other):
        names.learn(SYSTEM)
    assert one.text("CNFCP0096H01B7") != other.text("CNFCP0096H01B7")


def test_every_name_is_gone_and_everything_else_stays(written):
    text, tape = written(exchange("/redfish/v1/Systems/ABC1234", SYSTEM))
    for name in ("ABC1234", "CNFCP0096H01B7", "4c4c4544-0041", "gpu-node-17", "D0:94:66:3F:21:0A", "10.3.112.7"):
        assert name not in text
    for kept in ("PowerEdge R640", "255.255.255.0", "2.21.2"):
        assert kept in text
    assert tape.info.pseudonyms
    (event,) = tape.events("session/contact")
    body = tape.load(event.reply.body)
    tag = body["SKU"]
    assert tape.info.identity["service_tag"] == tag
    assert event.key == f"/redfish/v1/Systems/{tag}"
    assert event.reply.headers["location"] == f"/redfish/v1/Systems/{tag}/{tag}"
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", body.pop("UUID"))
    assert re.fullmatch("[0-9A-F][26AE](:[0-9A-F]{2}){5}", body["Ports"][0].pop("MACAddress"))
    other = {name: value for name, value in SYSTEM.items() if name not in ("UUID", "Ports")}
    port = {name: value for name, value in SYSTEM["Ports"][0].items() if name != "MACAddress"}
    assert form(json.dumps(body)) == form(json.dumps(other | {"Ports": [port]}))


def test_a_name_is_replaced_in_lines_of_workers_in_logs_and_in_a_console_that_cuts_it(written):
    line = json.dumps({"kind": "gpu", "serial": "1324920023456", "uuid": "GPU-9c4f0de8-5b1a-4f3e-8d2b-6a7c8d9e0f11"})
    console = [Traffic(float(at), "console", "rx", bytes([byte])) for at, byte in enumerate(b"gpu 1324920023456 up\r\n")]
    text, tape = written(
        command("agent nvml", line + "\n"), command("dmesg", "nvidia: serial 1324920023456 in D0:94:66\n"), *console
    )
    assert "1324920023456" not in text
    assert "9c4f0de8" not in text
    events = tape.events("session/contact")
    heard = b"".join(event.data for event in events if isinstance(event, Traffic)).decode()
    serial = json.loads(tape.load(events[0].reply.stdout))["serial"]
    assert heard == f"gpu {serial} up\r\n"
    assert serial in tape.load(events[1].reply.stdout)
    assert [len(event.data) for event in events if isinstance(event, Traffic)] == [1] * len(console)


@pytest.mark.parametrize("value", ["Not Available", "N/A", "", "0000000000", "None", "X1", "To Be Filled By O.E.M."])
def test_what_is_nobody_s_name_is_left_alone(value):
    names = Pseudonyms()
    names.learn({"SerialNumber": value, "AssetTag": value, "Version": "CNFCP0096H01B7"})
    assert names.names == ()


def test_a_name_that_hides_in_base64_is_not_kept(written):
    hidden = base64.b64encode(b"xx CNFCP0096H01B7 yy").decode()
    with pytest.raises(TapeError, match="a name of the machine is left on the tape"):
        written(exchange("/redfish/v1/Systems/1", SYSTEM | {"Blob": hidden}))
