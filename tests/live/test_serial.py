from __future__ import annotations

import os
import pty
import socket
import threading
import tty
from contextlib import suppress

import pytest

from harness.clock import Deadline
from harness.errors import OwnershipError, Unreachable
from harness.live.serial import SerialStream


@pytest.fixture
def line():
    """A pseudo-terminal: the far end's handle and the device's path."""
    far, near = pty.openpty()
    tty.setraw(near)
    yield far, os.ttyname(near), near
    for handle in (far, near):
        with suppress(OSError):  # a test may have closed it
            os.close(handle)


@pytest.fixture
def open_line(clock):
    opened = []

    def make(url: str, **other) -> SerialStream:
        opened.append(SerialStream(url, clock, **other))
        return opened[-1]

    yield make
    for stream in opened:
        stream.close()


@pytest.fixture
def service():
    """A listening TCP socket; the caller accepts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening, f"socket://127.0.0.1:{listening.getsockname()[1]}"


def hear(stream, clock, count: int) -> bytes:
    heard, deadline = b"", Deadline.after(clock, 5)
    while len(heard) < count:
        chunk = stream.read(deadline)
        assert chunk.data, f"heard only {heard[-200:]!r}"
        heard += chunk.data
    return heard


def test_bytes_pass_both_ways_unchanged(line, open_line, clock):
    far, device, _ = line
    stream, every = open_line(device), bytes(range(256)) * 3
    stream.write(every)
    got = b""
    while len(got) < len(every):
        got += os.read(far, 4096)
    assert got == every
    os.write(far, every)
    assert hear(stream, clock, len(every)) == every


def test_nothing_is_opened_before_the_first_use(open_line):
    open_line("/dev/no-such-device")


def test_a_device_that_is_not_there_is_named(open_line, clock):
    with pytest.raises(Unreachable, match=r"/dev/no-such-device: cannot be opened: No such file"):
        open_line("/dev/no-such-device").read(Deadline.after(clock, 1))


def test_a_url_of_no_known_kind_is_one_line(open_line, clock):
    with pytest.raises(Unreachable, match="cannot be opened"):
        open_line("carrier-pigeon://x").read(Deadline.after(clock, 1))


def test_a_second_opener_of_a_device_is_refused(line, open_line, clock):
    first, second = open_line(line[1]), open_line(line[1])
    first.read(Deadline.after(clock, 0.01))
    with pytest.raises(OwnershipError, match="somebody else has it open"):
        second.read(Deadline.after(clock, 0.01))
    first.close()
    assert open_line(line[1]).read(Deadline.after(clock, 0.01)).data == b""


def test_the_baud_rate_is_set(line, open_line, clock):
    import termios

    open_line(line[1], baud=57600).read(Deadline.after(clock, 0.01))
    assert termios.tcgetattr(line[2])[4:6] == [termios.B57600, termios.B57600]


def test_a_device_that_goes_away_is_unreachable_after_what_it_said(line, open_line, clock):
    far, device, near = line
    stream = open_line(device)
    stream.read(Deadline.after(clock, 0.01))
    os.write(far, b"last words\r\n")
    clock.sleep(0.2)
    os.close(near)
    os.close(far)
    assert hear(stream, clock, 12) == b"last words\r\n"
    with pytest.raises(Unreachable, match="last words"):
        stream.read(Deadline.after(clock, 5))


def test_the_time_of_a_chunk_is_that_of_its_first_byte(line, open_line, clock):
    far, device, _ = line
    stream = open_line(device)
    stream.read(Deadline.after(clock, 0.01))
    began = clock.now()
    os.write(far, b"a")
    clock.sleep(0.3)
    os.write(far, b"b")
    clock.sleep(0.3)
    first, second = stream.read(Deadline(clock.now())), stream.read(Deadline(clock.now()))
    assert (first.data, second.data) == (b"a", b"b")
    assert first.at - began < 0.2 < 0.25 < second.at - began < 0.55


def test_close_ends_the_thread_and_is_harmless_twice(line, open_line, clock):
    threads = threading.active_count()
    stream = open_line(line[1])
    stream.read(Deadline.after(clock, 0.01))
    assert threading.active_count() == threads + 1
    stream.close()
    stream.close()
    assert threading.active_count() == threads


@pytest.mark.socket
class TestSockets:
    def test_large_output_comes_whole_even_where_the_peer_closes_at_once(self, service, open_line, clock):
        listening, url = service
        data = os.urandom(600_000)

        def talk():
            peer, _ = listening.accept()
            with peer:
                assert peer.recv(10) == b"go"
                peer.sendall(data)

        peer = threading.Thread(target=talk)
        peer.start()
        stream = open_line(url)
        stream.write(b"go")
        assert hear(stream, clock, len(data)) == data
        with pytest.raises(Unreachable, match="the far end closed the connection"):
            stream.read(Deadline.after(clock, 5))
        peer.join()

    def test_large_input_goes_whole_to_a_slow_peer(self, service, open_line, clock):
        listening, url = service
        data, got = os.urandom(3_000_000), bytearray()

        def take():
            peer, _ = listening.accept()
            with peer:
                clock.sleep(0.2)
                while len(got) < len(data):
                    got.extend(peer.recv(100_000))

        peer = threading.Thread(target=take)
        peer.start()
        open_line(url).write(data)
        peer.join()
        assert bytes(got) == data

    def test_nobody_listening_is_unreachable(self, service, open_line, clock):
        listening, url = service
        listening.close()
        with pytest.raises(Unreachable, match=r"cannot be opened.*refused"):
            open_line(url).read(Deadline.after(clock, 1))

    def test_a_far_end_that_speaks_rfc2217_is_reached(self, open_line, clock):
        import serial.rfc2217

        device = serial.serial_for_url("loop://", timeout=0)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            stop = threading.Event()
            served = threading.Thread(target=serve_rfc2217, args=(serial, listening, device, stop))
            served.start()
            stream = open_line(f"rfc2217://127.0.0.1:{listening.getsockname()[1]}", baud=57600)
            stream.write(b"ping \xff")
            assert hear(stream, clock, 6) == b"ping \xff"
            assert device.baudrate == 57600
            stop.set()
            served.join()
            with pytest.raises(Unreachable):
                stream.read(Deadline.after(clock, 5))


def serve_rfc2217(serial, listening, device, stop) -> None:
    """The far end of RFC 2217, by pyserial's own port manager."""
    peer, _ = listening.accept()

    class Out:
        def write(self, data: bytes) -> None:
            peer.sendall(data)

    manager = serial.rfc2217.PortManager(device, Out())
    peer.settimeout(0.02)
    with peer:
        while not stop.is_set():
            try:
                heard = peer.recv(1024)
            except TimeoutError:
                heard = None
            except OSError:
                return
            if heard == b"":
                return
            if heard:
                device.write(b"".join(manager.filter(heard)))
            if said := device.read(1024):
                peer.sendall(b"".join(manager.escape(said)))
