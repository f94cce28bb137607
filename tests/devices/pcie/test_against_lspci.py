"""The decoder against lspci, a decoder written by other people, on the same bytes."""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.devices.pcie import decode_config, generation_of

LSPCI = shutil.which("lspci")
pytestmark = pytest.mark.skipif(LSPCI is None, reason="lspci is missing: install pciutils to compare the decoder with it")

TYPES = {
    "Endpoint": "endpoint", "Legacy Endpoint": "legacy endpoint", "Root Port": "root port",
    "Upstream Port": "switch upstream port", "Downstream Port": "switch downstream port",
    "PCI-Express to PCI/PCI-X Bridge": "PCI Express to PCI bridge", "PCI/PCI-X to PCI-Express Bridge": "PCI to PCI Express bridge",
    "Root Complex Integrated Endpoint": "root complex integrated endpoint",
    "Root Complex Event Collector": "root complex event collector",
}  # fmt: skip
CORRECTABLE = {"RxErr": 0, "BadTLP": 6, "BadDLLP": 7, "Rollover": 8, "Timeout": 12, "AdvNonFatalErr": 13}
UNCORRECTABLE = {
    "DLP": 4, "SDES": 5, "TLP": 12, "FCP": 13, "CmpltTO": 14, "CmpltAbrt": 15, "UnxCmplt": 16, "RxOF": 17, "MalfTLP": 18,
    "ECRC": 19, "UnsupReq": 20, "ACSViol": 21,
}  # fmt: skip
ACS = {"SrcValid": 0, "TransBlk": 1, "ReqRedir": 2, "CmpltRedir": 3, "UpstreamFwd": 4, "EgressCtrl": 5, "DirectTrans": 6}


def dump(address, raw):
    """One function as ``lspci -x`` prints it and ``lspci -F`` reads it."""
    rows = [f"{at:02x}: {raw[at : at + 16].hex(' ')}" for at in range(0, len(raw), 16)]
    return "\n".join([f"{address} Bus", *rows]) + "\n\n"


def decoded_by_lspci(text, tmp_path):
    file = tmp_path / "dump"
    file.write_text(text)
    done = subprocess.run([LSPCI, "-F", file, "-vvv", "-n", "-D"], capture_output=True, text=True, check=True)
    return dict(part.split(" ", 1) for part in done.stdout.split("\n\n") if part)


def bits(text, names):
    """The bits that a line such as ``UESta: DLP- SDES+`` sets, and those it names at all."""
    known = {name: sign == "+" for name, sign in re.findall(r"(\w+)([+-])", text) if name in names}
    return sum(1 << names[name] for name, on in known.items() if on), sum(1 << names[name] for name in known)


def facts_of_lspci(text):
    """What lspci says of the registers that the harness decodes; a key it does not print is left out."""
    facts = {}

    def found(key, pattern, convert=int):
        match = re.search(pattern, text)
        if match:
            facts[key] = convert(match.group(1))

    found("type", r"Express \(v\d+\) ([^\n(]+?)(?: \(Slot[+-]\))?,? (?:MSI|IntMsgNum)", TYPES.get)
    found("payload_most", r"DevCap:\s+MaxPayload (\d+)")
    found("payload", r"\n\t\t\tMaxPayload (\d+) bytes, MaxReadReq")
    found("request", r"MaxReadReq (\d+)")
    found("relaxed_ordering", r"DevCtl:(?:.*\n.*)RlxdOrd([+-])", lambda sign: sign == "+")
    found("generation_most", r"LnkCap:.*Speed ([\d.]+)GT/s", lambda speed: generation_of(float(speed)))
    found("width_most", r"LnkCap:.*Width x(\d+)")
    found("aspm", r"LnkCtl:\s+ASPM (Disabled|L0s Enabled|L1 Enabled|L0s L1 Enabled)",
          ["Disabled", "L0s Enabled", "L1 Enabled", "L0s L1 Enabled"].index)  # fmt: skip
    found("disabled", r"LnkCtl:.*Disabled([+-])", lambda sign: sign == "+")
    found("generation", r"LnkSta:\s+Speed ([\d.]+)GT/s", lambda speed: generation_of(float(speed)))
    found("width", r"LnkSta:.*Width x(\d+)")
    if "LLActRep+" in text:
        found("active", r"DLActive([+-])", lambda sign: sign == "+")
    found("training", r"Train([+-])", lambda sign: sign == "+")
    found("target", r"Target Link Speed: ([\d.]+)GT/s", lambda speed: generation_of(float(speed)))
    found("slot", r"Slot #(\d+)")
    found("hotplug", r"HotPlug([+-])", lambda sign: sign == "+")
    found("surprise", r"HotPlug[+-] Surprise([+-])", lambda sign: sign == "+")
    found("presence", r"SltSta:.*PresDet([+-])", lambda sign: sign == "+")
    found("link_changed", r"Changed: MRL[+-] PresDet[+-] LinkState([+-])", lambda sign: sign == "+")
    found("uncorrectable", r"UESta:(.*)", lambda line: bits(line, UNCORRECTABLE))
    found("severity", r"UESvrt:(.*)", lambda line: bits(line, UNCORRECTABLE))
    found("correctable", r"CESta:(.*)", lambda line: bits(line, CORRECTABLE))
    found("acs_capability", r"ACSCap:(.*)", lambda line: bits(line, ACS))
    found("acs_control", r"ACSCtl:(.*)", lambda line: bits(line, ACS))
    found("serial", r"Device Serial Number ([0-9a-f-]+)", str)
    found("initial", r"Initial VFs: (\d+)")
    found("total", r"Total VFs: (\d+)")
    found("enabled", r"Number of VFs: (\d+)")
    return facts


def facts_of_harness(config, wanted):
    """The same of the harness, for the keys that lspci printed."""
    facts = {}
    express = config.express
    if express is not None:
        facts.update({"type": str(express.type), "payload_most": express.payload_most, "payload": express.payload,
                      "request": express.request, "relaxed_ordering": express.relaxed_ordering})  # fmt: skip
        if (link := express.link) is not None:
            facts.update({
                name: getattr(link, name)
                for name in ("generation_most", "width_most", "aspm", "disabled", "generation", "width", "active", "training",
                             "target")
            })  # fmt: skip
            facts["target"] = link.target or 1  # a port that only does 2.5 GT/s may leave the field at 0, which lspci prints so
        if (slot := express.slot) is not None:
            facts.update({"slot": slot.number, "hotplug": slot.hotplug, "surprise": slot.surprise, "presence": slot.presence,
                          "link_changed": slot.link_changed})  # fmt: skip
    if (aer := config.aer) is not None:
        for key, value in (
            ("uncorrectable", aer.uncorrectable), ("severity", aer.uncorrectable_severity), ("correctable", aer.correctable),
        ):  # fmt: skip
            facts[key] = (value & wanted.get(key, (0, 0))[1], wanted.get(key, (0, 0))[1])
    if (acs := config.acs) is not None:
        for key, value in (("acs_capability", acs.capability), ("acs_control", acs.control)):
            facts[key] = (value & wanted.get(key, (0, 0))[1], wanted.get(key, (0, 0))[1])
    if config.serial:
        facts["serial"] = config.serial
    if (sriov := config.sriov) is not None:
        facts.update({"initial": sriov.initial, "total": sriov.total, "enabled": sriov.enabled})
    return {key: facts.get(key) for key in wanted}


def test_lspci_and_the_harness_read_the_same_from_made_up_functions(config_bytes, tmp_path):
    dice = random.Random(640)
    functions = {f"0000:{bus:02x}:00.0": made_up(config_bytes, dice) for bus in range(1, 61)}
    theirs = decoded_by_lspci("".join(dump(address, raw) for address, raw in functions.items()), tmp_path)
    assert theirs.keys() == functions.keys()
    seen = set()
    for address, raw in functions.items():
        wanted = facts_of_lspci(theirs[address])
        assert facts_of_harness(decode_config(raw), wanted) == wanted, theirs[address]
        seen |= wanted.keys()
    assert len(seen) >= 26, f"lspci printed only {sorted(seen)}: its wording has changed and this test compares too little"


def made_up(config_bytes, dice):
    port = dice.choice([0, 1, 4, 5, 6, 9])
    bridge = port in (4, 5, 6)
    builder = config_bytes(bridge=bridge, class_code=None if bridge else 0x030200)
    builder.power_management().express(
        port=port,
        slot=bridge and dice.random() < 0.7,
        devcap=dice.randrange(6) | 0x20,
        devctl=dice.randrange(6) << 5 | dice.randrange(6) << 12 | dice.choice([0, 0x10, 0x100]),
        lnkcap=dice.randint(1, 5) | dice.choice([1, 2, 4, 8, 16]) << 4 | (0x00100000 if bridge else 0) | dice.randrange(4) << 10,
        lnkctl=dice.randrange(4) | dice.choice([0, 0x10]),
        lnksta=dice.randint(1, 5) | dice.choice([1, 2, 4, 8, 16]) << 4 | dice.choice([0, 0x2000]) | dice.choice([0, 0x800]),
        sltcap=dice.randrange(64) << 19 | dice.randrange(128),
        sltsta=dice.randrange(512),
        lnkctl2=dice.randint(1, 5),
    )
    builder.aer(0x100, ue=dice.getrandbits(22) & 0x3FF030, severity=0x462030, ce=dice.getrandbits(14) & 0x31C1)
    builder.serial(0x148, dice.getrandbits(64))
    if bridge:
        builder.acs(0x160, capability=0x5F, control=dice.randrange(128) & 0x5F)
    else:
        builder.sriov(0x160, initial=dice.randrange(16), total=16, enabled=dice.randrange(8))
        builder.ari(0x1A0)
    return builder.raw()


def recorded_dumps():
    folder = os.environ.get("BRINGUP_FIELD_DATA", "")
    return sorted((Path(folder) / "pcie/pciutils__pciutils/tests").glob("*")) if folder else []


@pytest.mark.skipif(not recorded_dumps(), reason="no recorded dumps: set BRINGUP_FIELD_DATA to the folder with recorded field data")
def test_lspci_and_the_harness_read_the_same_from_recorded_functions(tmp_path):
    compared = 0
    for file in recorded_dumps():
        for number, (text, raw) in enumerate(functions_in(file.read_text(errors="replace"))):
            theirs = decoded_by_lspci(f"0000:{number % 256:02x}:00.0 Bus\n{text}\n", tmp_path)
            wanted = facts_of_lspci(next(iter(theirs.values())))
            assert facts_of_harness(decode_config(raw), wanted) == wanted, f"{file.name}: {theirs}"
            compared += len(wanted)
    assert compared > 300


def functions_in(text):
    """The hex dumps in a file: text as lspci wants it, and the bytes."""
    rows: list[str] = []
    for line in [*text.splitlines(), ""]:
        if re.match(r"[0-9a-f]{2,3}: ", line):
            rows.append(line)
        elif rows:
            yield "\n".join(rows) + "\n", bytes.fromhex("".join(row.split(": ", 1)[1] for row in rows))
            rows = []
