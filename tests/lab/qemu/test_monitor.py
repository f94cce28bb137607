from __future__ import annotations

import socket

import pytest

from harness.errors import BenchError, Unreachable
from harness.lab.qemu.monitor import Event, Monitor


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Monitor(ours), theirs


def test_events_between_a_question_and_its_answer_are_kept(pair):
    monitor, qemu = pair
    qemu.sendall(b'{"event": "RESET", "data": {"guest": true}}\n{"return": {"running": true}}\n')
    assert monitor.ask("query-status") == {"running": True}
    assert qemu.recv(4096) == b'{"execute": "query-status", "arguments": {}}\n'
    assert monitor.events() == (Event("RESET", {"guest": True}),)
    assert monitor.events() == ()


def test_a_refusal_is_one_line(pair):
    monitor, qemu = pair
    qemu.sendall(b'{"error": {"class": "GenericError", "desc": "Device not found"}}\n')
    with pytest.raises(BenchError, match="refuses device_del: Device not found"):
        monitor.ask("device_del", id="nothing")


def test_the_last_words_of_a_qemu_that_ended_are_read(pair):
    monitor, qemu = pair
    qemu.sendall(b'{"event": "SHUTDOWN", "data": {"reason": "guest-shutdown"}}\n')
    qemu.close()
    assert monitor.events() == (Event("SHUTDOWN", {"reason": "guest-shutdown"}),)
    with pytest.raises(Unreachable):
        monitor.ask("query-status")


def test_half_a_line_waits_for_its_other_half(pair):
    monitor, qemu = pair
    qemu.sendall(b'{"event": "STOP"')
    assert monitor.events() == ()
    qemu.sendall(b"}\n")
    assert monitor.events() == (Event("STOP", {}),)


def test_the_older_monitor_refuses_in_words(pair):
    monitor, qemu = pair
    order = {"command-line": "pcie_aer_inject_error -c nothing RCVR"}
    qemu.sendall(b'{"return": "Device \'nothing\' not found\\r\\n"}\n{"return": "OK id: port08\\r\\n"}\n{"return": {}}\n')
    with pytest.raises(BenchError, match="refuses pcie_aer_inject_error -c nothing RCVR: Device 'nothing' not found"):
        monitor.do("human-monitor-command", order)
    monitor.do("human-monitor-command", order)
    monitor.do("device_del", {"id": "part08"})
