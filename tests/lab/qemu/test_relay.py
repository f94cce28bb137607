from __future__ import annotations

import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from harness.clock import WallClock
from harness.errors import BenchError
from harness.lab.qemu.relay import ConsoleRelay

pytestmark = pytest.mark.socket


@pytest.fixture
def relay(tmp_path):
    opened = ConsoleRelay(tmp_path / "console.log")
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def connect(relay):
    clients = []

    def connected() -> socket.socket:
        split = urlsplit(relay.url)
        clients.append(socket.create_connection((split.hostname, split.port), timeout=5))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


def receive(line: socket.socket, count: int) -> bytes:
    data = b""
    line.settimeout(20)
    while len(data) < count and (piece := line.recv(65536)):
        data += piece
    return data


def heard(relay: ConsoleRelay, number: int, count: int) -> bytes:
    said = bytearray()

    def look() -> int:
        said.extend(relay.heard(number))
        return len(said)

    WallClock().until(look, lambda length: length >= count, what="the copy", every=0.01, within=5)
    return bytes(said)


def test_the_client_and_the_bmc_both_get_every_byte(relay, connect, tmp_path):
    client = connect()
    number, line = relay.attach()
    with line:
        client.sendall(b"typed")
        assert receive(line, 5) == b"typed"
        line.sendall(b"said")
        assert receive(client, 4) == b"said"
        assert heard(relay, number, 4) == b"said"
        assert (tmp_path / "console.log").read_bytes() == b"said"


def test_a_line_that_is_cut_carries_nothing_either_way_and_the_bmc_hears_on(tmp_path):
    relay = ConsoleRelay(tmp_path / "console.log", is_cut=True)
    relay.open()
    try:
        split = urlsplit(relay.url)
        number, line = relay.attach()
        with socket.create_connection((split.hostname, split.port), timeout=5) as client, line:
            client.sendall(b"typed")
            line.sendall(b"said")
            assert heard(relay, number, 4) == b"said"
            for end in (client, line):
                end.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    end.recv(1)
    finally:
        relay.close()


def test_the_client_stays_while_machines_come_and_go(relay, connect):
    client = connect()
    for said in (b"first", b"second"):
        number, line = relay.attach()
        with line:
            line.sendall(said)
            assert receive(client, len(said)) == said
        assert heard(relay, number, len(said)) == said


def test_the_last_words_of_one_machine_are_not_taken_for_the_next(relay, connect):
    _, line = relay.attach()
    with line:
        line.sendall(b"old login: ")
    second, line = relay.attach()
    with line:
        line.sendall(b"new")
        assert heard(relay, second, 3) == b"new"


def test_a_second_client_is_hung_up_on_and_the_first_one_is_not(relay, connect):
    first = connect()
    _, line = relay.attach()
    with line:
        line.sendall(b"a")
        assert receive(first, 1) == b"a"
        assert connect().recv(1) == b""
        line.sendall(b"b")
        assert receive(first, 1) == b"b"


def test_when_a_client_has_left_the_next_one_gets_the_console(relay, connect):
    first = connect()
    _, line = relay.attach()
    with line:
        line.sendall(b"a")
        assert receive(first, 1) == b"a"
        first.close()

        def try_again() -> bytes:
            second = connect()
            line.sendall(b"b")
            return receive(second, 1)

        assert WallClock().until(try_again, bool, what="the console", every=0.05, within=5) == b"b"


def test_a_megabyte_goes_both_ways_through_slow_readers(relay, connect):
    client = connect()
    _, line = relay.attach()
    text = bytes(range(256)) * 4096
    with line:
        line.sendall(text)
        assert receive(client, len(text)) == text
        client.settimeout(0.2)
        sent = 0
        got = b""
        line.settimeout(5)
        while len(got) < len(text):
            with suppress(TimeoutError):
                sent += client.send(text[sent : sent + 65536]) if sent < len(text) else 0
            if sent == len(text) or sent > len(got) + (1 << 19):
                got += line.recv(65536)
        assert got == text


def test_a_port_that_is_taken_is_one_line(relay, tmp_path):
    port = urlsplit(relay.url).port
    with pytest.raises(BenchError, match=f"port {port}"):
        ConsoleRelay(tmp_path / "other.log", port).open()


def test_closing_twice_is_harmless(tmp_path):
    relay = ConsoleRelay(tmp_path / "log")
    relay.close()
    relay.open()
    relay.close()
    relay.close()
    with pytest.raises(BenchError):
        _ = ConsoleRelay(tmp_path / "log").url
