"""What lspci prints of made-up bytes, read back as text, tells the same as the bytes: lspci is the encoder, written by others."""

import random
import shutil
import subprocess

import pytest

from harness.devices.dumps.harvest import Format
from harness.devices.dumps.lspci import parse_lspci
from harness.devices.dumps.picture import merge
from harness.devices.pcie import decode_config

LSPCI = shutil.which("lspci")


def dump(address, raw):
    rows = [f"{at:02x}: {raw[at : at + 16].hex(' ')}" for at in range(0, len(raw), 16)]
    return "\n".join([f"{address} Bus", *rows]) + "\n\n"


def printed(text, tmp_path, *options):
    file = tmp_path / "dump"
    file.write_text(text)
    return subprocess.run([LSPCI, "-F", file, "-D", *options], capture_output=True, text=True, check=True).stdout


def made_up(config_bytes, dice):
    port = dice.choice([0, 4, 5, 6])
    is_bridge = port in (4, 5, 6)
    widths = [1, 2, 4, 8, 16]
    builder = config_bytes(bridge=is_bridge).power_management().express(
        port=port,
        slot=port in (4, 6) and dice.random() < 0.7,
        devcap=dice.randrange(6),
        devctl=dice.randrange(6) << 5 | dice.randrange(6) << 12 | dice.choice([0, 0x10, 0x100]),
        devsta=dice.randrange(16),
        lnkcap=dice.randint(1, 5) | dice.choice(widths) << 4 | (0x00100000 if is_bridge else 0),
        lnkctl=dice.randrange(4) | dice.choice([0, 0x10]),
        lnksta=dice.randint(1, 5) | dice.choice(widths) << 4 | dice.choice([0, 0x2000]) | dice.choice([0, 0x800]),
        sltcap=dice.randrange(64) << 19 | dice.randrange(128),
        sltsta=dice.randrange(512),
        lnkctl2=dice.randint(1, 5),
    )  # fmt: skip
    builder.aer(
        0x100, ue=dice.getrandbits(22) & 0x3FF030, severity=dice.getrandbits(22) & 0x3FF030, ce=dice.getrandbits(14) & 0x31C1
    )
    builder.serial(0x148, dice.getrandbits(64) | 1)
    if is_bridge:
        builder.acs(0x160, control=dice.randrange(128) & 0x5F)
        builder.dpc(0x1A0, control=dice.choice([0, 1, 2]), status=dice.choice([0, 1, 3, 5]), source=0)
    else:
        builder.sriov(0x160, initial=dice.randrange(16), total=16, enabled=dice.randrange(8))
        builder.ari(0x1A0, following=dice.randrange(8))
        builder.rebar(0x1C0, (1, dice.randrange(4, 12), 8, dice.randrange(8)))
    return builder.raw()


@pytest.mark.skipif(LSPCI is None, reason="lspci is missing: install pciutils to compare text and bytes")
@pytest.mark.parametrize("options", [("-vvv",), ("-nnvvv",), ("-nvvv",)])
def test_the_text_that_lspci_prints_tells_the_same_as_the_bytes(config_bytes, tmp_path, options):
    dice = random.Random(20)
    functions = {f"0000:{bus:02x}:00.0": made_up(config_bytes, dice) for bus in range(1, 61)}
    text = printed("".join(dump(bdf, raw) for bdf, raw in functions.items()), tmp_path, *options)
    harvest = parse_lspci(text, "x")
    assert harvest.format is Format.LSPCI
    assert [function.bdf for function in harvest.functions] == list(functions)
    for function in harvest.functions:
        theirs, ours = function.config, decode_config(functions[function.bdf])
        assert theirs.express.link == ours.express.link, function.bdf
        assert theirs.express.slot == ours.express.slot, function.bdf
        for name in ("type", "version", "payload_most", "payload", "request", "extended_tag", "relaxed_ordering", "status"):
            assert getattr(theirs.express, name) == getattr(ours.express, name), (function.bdf, name)
        assert theirs.aer.fatal == ours.aer.fatal
        assert theirs.aer.correctable == ours.aer.correctable
        assert theirs.acs == ours.acs
        assert theirs.sriov == ours.sriov
        assert theirs.serial == ours.serial
        assert theirs.ari == ours.ari
        assert (theirs.dpc and (theirs.dpc.triggered, theirs.dpc.reason)) == (ours.dpc and (ours.dpc.triggered, ours.dpc.reason))
        assert theirs.rebar == ours.rebar, function.bdf


@pytest.mark.skipif(LSPCI is None, reason="lspci is missing: install pciutils to compare text and bytes")
def test_the_tree_that_lspci_draws_is_the_tree_of_the_bus_numbers(config_bytes, tmp_path):
    for seed in range(6):
        functions = random_tree(config_bytes, random.Random(seed))
        text = "".join(dump(bdf, raw) for bdf, raw in functions.items())
        from harness.devices.dumps.recognise import read_dump

        drawn = merge(read_dump("t", printed(text, tmp_path, "-tnn").encode())).snapshot
        numbered = merge(read_dump("x", text.encode())).snapshot
        assert {function.bdf: function.path for function in drawn.functions} == {
            function.bdf: function.path for function in numbered.functions
        }
        assert len(drawn.functions) == len(functions)


def random_tree(config_bytes, dice):
    """Bridges and endpoints by address, with bus numbers as a kernel gives them."""
    functions = {}
    bus = 0

    def below(parent, depth):
        nonlocal bus
        for device in sorted(dice.sample(range(32), dice.randint(1, 4))):
            bdf = f"0000:{parent:02x}:{device:02x}.0"
            if depth < 4 and dice.random() < 0.6 and bus < 200:
                bus += 1
                own = bus
                functions[bdf] = None
                below(own, depth + 1)
                builder = config_bytes(bridge=True).express(port=4 if depth == 0 else dice.choice([5, 6]))
                builder.poke(0x18, bytes((parent, own, bus)))
                functions[bdf] = builder.raw()
            else:
                functions[bdf] = config_bytes(device=0x1E30).express().raw()

    below(0, 0)
    return functions
