import struct
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.devices.pcie import PortType, decode_config


def test_an_endpoint_tells_payload_request_and_link(config_bytes):
    config = decode_config(config_bytes().power_management().express(devcap=0x1, devctl=0x2930, lnksta=0x1101).raw())
    assert config.problems == ()
    assert (config.vendor, config.device, config.class_code, config.revision) == (0x10DE, 0x1E78, 0x030200, 0xA1)
    express = config.express
    assert (express.type, express.version) == (PortType.ENDPOINT, 2)
    assert (express.payload_most, express.payload, express.request) == (256, 256, 512)
    assert express.extended_tag
    assert express.relaxed_ordering
    link = express.link
    assert (link.generation_most, link.width_most, link.generation, link.width, link.target) == (3, 16, 1, 16, 3)
    assert link.active is None, "this endpoint does not report Data Link Layer Link Active"
    assert express.slot is None


def test_a_downstream_port_tells_presence_and_link_apart(config_bytes):
    """A card that is plugged in and does not train: PresDet+ DLActive-."""
    raw = config_bytes(bridge=True).express(
        port=6, slot=True, lnkcap=0x00100503, lnksta=0x0000, sltcap=7 << 19 | 0x40, sltsta=0x0148
    ).raw()  # fmt: skip
    express = decode_config(raw).express
    assert express.type is PortType.DOWNSTREAM
    assert express.link.active is False
    assert (express.link.generation, express.link.width) == (0, 0)
    assert (express.slot.number, express.slot.hotplug, express.slot.surprise) == (7, True, False)
    assert (express.slot.presence, express.slot.presence_changed, express.slot.link_changed) == (True, True, True)
    assert not express.slot.power_fault


def test_an_upstream_port_has_no_slot_even_with_the_slot_bit(config_bytes):
    assert decode_config(config_bytes(bridge=True).express(port=5, slot=True).raw()).express.slot is None


def test_an_integrated_endpoint_has_no_link(config_bytes):
    assert decode_config(config_bytes(class_code=0x088000).express(port=9).raw()).express.link is None


def test_extended_capabilities_are_decoded(config_bytes):
    raw = (
        config_bytes(bridge=True)
        .express(port=4)
        .aer(0x100, ue=1 << 4 | 1 << 20, ce=1 << 12)
        .serial(0x148, 0x000B1B0102030405)
        .acs(0x160, capability=0x5F, control=0x1D)
        .ari(0x170)
        .sriov(0x180, initial=8, total=16, enabled=4)
        .raw()
    )
    config = decode_config(raw)
    assert config.problems == ()
    assert [capability.id for capability in config.extended] == [0x01, 0x03, 0x0D, 0x0E, 0x10]
    assert (config.aer.uncorrectable, config.aer.correctable) == (1 << 4 | 1 << 20, 1 << 12)
    assert config.aer.fatal == 1 << 4, "the severity register calls DLP fatal and UnsupReq not"
    assert config.serial == "00-0b-1b-01-02-03-04-05"
    assert config.acs.redirects_requests
    assert config.acs.redirects_completions
    assert not config.acs.controls_egress
    assert config.ari
    assert (config.sriov.initial, config.sriov.total, config.sriov.enabled) == (8, 16, 4)


def test_without_acs_control_bits_nothing_is_redirected(config_bytes):
    acs = decode_config(config_bytes(bridge=True).express(port=6).acs(0x100, control=0x11).raw()).acs
    assert (acs.redirects_requests, acs.redirects_completions, acs.controls_egress) == (False, False, False)


@pytest.mark.parametrize("size", [4, 64, 256, 4096])
def test_all_ones_is_a_device_that_is_gone(size):
    config = decode_config(b"\xff" * size)
    assert config.gone
    assert config.express is None
    assert "all ones" in config.problems[0]


def test_a_device_that_goes_while_it_is_read_is_noted(config_bytes):
    config = decode_config(config_bytes().express().poke(0x68 + 0x0C, b"\xff" * 8).raw())
    assert not config.gone
    assert config.express.link is None
    assert config.problems == ("the link registers at 0x074: all ones, so the device went away while it was read",)


def test_64_bytes_are_a_header_and_a_note_that_the_rest_was_not_read(config_bytes):
    config = decode_config(config_bytes(size=64).express().raw())
    assert config.vendor == 0x10DE
    assert config.express is None
    assert not config.is_extended
    assert not config.reaches(0x68)
    assert config.problems == ("the capability list goes on at 0x68, beyond the 64 bytes read",)


def test_256_bytes_hold_the_express_capability_and_no_extended_one(config_bytes):
    config = decode_config(config_bytes(size=256).express().aer(0x100).raw())
    assert config.express is not None
    assert config.aer is None
    assert not config.is_extended
    assert config.problems == ()


def test_a_capability_list_that_loops_ends(config_bytes):
    config = decode_config(config_bytes().power_management(0x60).express(0x68).poke(0x69, b"\x60").raw())
    assert [capability.offset for capability in config.capabilities] == [0x60, 0x68]
    assert config.problems == ("the capability list loops at 0x60",)


def test_an_extended_list_that_loops_ends(config_bytes):
    raw = config_bytes().express().aer(0x100).acs(0x150).poke(0x150, struct.pack("<I", 0x000D | 1 << 16 | 0x100 << 20)).raw()
    config = decode_config(raw)
    assert [capability.offset for capability in config.extended] == [0x100, 0x150]
    assert config.problems == ("the extended capability list loops at 0x100",)


def test_a_pointer_into_the_header_is_refused(config_bytes):
    config = decode_config(config_bytes().poke(0x34, b"\x10").raw())
    assert config.capabilities == ()
    assert config.problems == ("a capability pointer leads to 0x10, inside the header",)


def test_a_capability_cut_off_by_the_end_is_noted(config_bytes):
    config = decode_config(config_bytes().express().aer(0x100).acs(0xFFC).raw())
    assert config.acs is None
    assert config.problems == ("the access control registers at 0x1000: beyond the 4096 bytes read",)


def test_without_the_status_bit_there_is_no_capability_list(config_bytes):
    assert decode_config(config_bytes().express().poke(0x06, b"\0\0").raw()).capabilities == ()


@given(st.binary(max_size=5000))
@example(b"")
@example(b"\xff")
@example(b"\0" * 4096)
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_the_decoder_raise(raw):
    config = decode_config(raw)
    assert config.gone == (raw[:4] == b"\xff" * 4)
    if len(raw) < 64:
        assert config.problems
    else:
        offsets = [capability.offset for capability in (*config.capabilities, *config.extended)]
        assert len(offsets) == len(set(offsets)), "no capability is decoded twice"


@given(
    damage=st.lists(st.tuples(st.integers(0, 0x3FF), st.binary(min_size=1, max_size=8)), min_size=1, max_size=12),
    size=st.integers(64, 4096),
)
@settings(max_examples=150, deadline=None)
def test_damage_is_either_decoded_or_noted_and_never_invents_registers(config_bytes, damage, size):
    builder = (
        config_bytes(bridge=True)
        .power_management()
        .express(port=6, slot=True)
        .aer(0x100)
        .acs(0x150)
        .sriov(0x160, initial=0, total=8)
    )
    for offset, data in damage:
        builder.poke(offset, data)
    raw = builder.raw()[:size]
    config = decode_config(raw)
    if config.gone:
        return
    express = config.find(0x10)
    assert (config.express is not None) == (express is not None and not _noted(config, "the PCI Express capability"))
    for identity, register, what in (
        (0x01, config.aer, "the error registers"),
        (0x0D, config.acs, "the access control registers"),
        (0x10, config.sriov, "the SR-IOV registers"),
    ):
        found = config.find_extended(identity)
        assert (register is not None) == (found is not None and not _noted(config, what))
        assert found is None or found.offset + 4 <= len(raw)
    assert all(one.offset >= 0x40 for one in config.capabilities)


def _noted(config, what):
    return any(problem.startswith(what) for problem in config.problems)


@given(st.permutations(range(0x40, 0x100, 4)))
@settings(max_examples=25, deadline=None)
def test_a_list_is_followed_in_its_own_order(config_bytes, offsets):
    builder = config_bytes()
    chain = offsets[:30]
    builder.poke(0x34, bytes([chain[0]]))
    for offset, following in pairwise([*chain, 0]):
        builder.poke(offset, bytes([0x09, following]))
    config = decode_config(builder.raw())
    assert [capability.offset for capability in config.capabilities] == chain
    assert config.problems == ()
