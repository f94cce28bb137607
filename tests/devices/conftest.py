from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clock import VirtualClock
from harness.devices.redfish import Redfish
from harness.ports import HttpAnswer, HttpQuestion, OnLine


class Script:
    """A Redfish lane with answers by key, the last of each repeated; it keeps every question."""

    def __init__(self, clock: VirtualClock, answers: dict[str, list[tuple[int, Any]]]) -> None:
        self.clock = clock
        self.answers = answers
        self.asked: list[HttpQuestion] = []

    def ask(self, question: HttpQuestion, on_line: OnLine | None = None) -> HttpAnswer:
        self.asked.append(question)
        self.clock.sleep(0.1)
        listed = self.answers.get(question.key, [(404, None)])
        status, body = listed.pop(0) if len(listed) > 1 else listed[0]
        if isinstance(body, Exception):
            raise body
        headers = body.pop("headers", {}) if isinstance(body, dict) and "headers" in body else {}
        return HttpAnswer(status, headers, body, self.clock.now(), 0.1)

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def script(clock: VirtualClock) -> Callable[..., tuple[Redfish, Script]]:
    def build(answers: dict[str, Any]) -> tuple[Redfish, Script]:
        listed = {key: (value if isinstance(value, list) else [(200, value)]) for key, value in answers.items()}
        lane = Script(clock, listed)
        return Redfish(lane, clock), lane

    return build


@pytest.fixture
def field_data() -> Path:
    """Recorded public captures, which are not part of the project."""
    folder = os.environ.get("BRINGUP_FIELD_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("BRINGUP_FIELD_DATA names no folder of recorded captures")
    return Path(folder)


class ConfigBytes:
    """Configuration space put together capability by capability, independent of the decoder under test."""

    def __init__(self, *, bridge=False, vendor=0x10DE, device=0x1E78, class_code=None, size=4096):
        self.size = size
        self.data = bytearray(4096)
        code = class_code if class_code is not None else 0x060400 if bridge else 0x030200
        struct.pack_into("<HHHHI", self.data, 0, vendor, device, 0x0006, 0x0010, code << 8 | 0xA1)
        self.data[0x0E] = 1 if bridge else 0
        self._link = 0x34
        self._extended = 0

    def express(self, at=0x68, *, port=0, version=2, slot=False, devcap=0x1, devctl=0x2910, devsta=0, lnkcap=0x00477D03,
                lnkctl=0, lnksta=0x1103, sltcap=0, sltsta=0, lnkctl2=0x3):  # fmt: skip
        self._chain(at, 0x10)
        flags = version | port << 4 | (0x100 if slot else 0)
        struct.pack_into("<HIHHIHH", self.data, at + 2, flags, devcap, devctl, devsta, lnkcap, lnkctl, lnksta)
        if slot:
            struct.pack_into("<IHH", self.data, at + 0x14, sltcap, 0, sltsta)
        if version >= 2:
            struct.pack_into("<IHH", self.data, at + 0x2C, 0x0E, lnkctl2, 0)
        return self

    def power_management(self, at=0x60):
        self._chain(at, 0x01)
        struct.pack_into("<H", self.data, at + 2, 0x4803)
        return self

    def aer(self, at, *, ue=0, ue_mask=0, severity=0x00462030, ce=0, ce_mask=0x6000):
        return self._extend(at, 0x0001, struct.pack("<IIIII", ue, ue_mask, severity, ce, ce_mask), version=2)

    def serial(self, at, value):
        return self._extend(at, 0x0003, struct.pack("<Q", value))

    def acs(self, at, *, capability=0x5F, control=0):
        return self._extend(at, 0x000D, struct.pack("<HH", capability, control))

    def sriov(self, at, *, initial, total, enabled=0):
        return self._extend(at, 0x0010, struct.pack("<IHHHHH", 0x2, 0, 0, initial, total, enabled))

    def ari(self, at, *, following=0):
        return self._extend(at, 0x000E, struct.pack("<BBH", 0, following, 0))

    def dpc(self, at, *, control=0, status=0, source=0):
        return self._extend(at, 0x001D, struct.pack("<HHHH", 0x0020, control, status, source))

    def rebar(self, at, *entries):
        """Each entry is (index of the BAR, exponent of the least size in MiB, how many sizes, which of them is set)."""
        body = b""
        for index, least, count, chosen in entries:
            offered = sum(1 << exponent + 4 for exponent in range(least, least + count))
            body += struct.pack("<II", offered, index | len(entries) << 5 | least + chosen << 8)
        return self._extend(at, 0x0015, body)

    def poke(self, at, data):
        self.data[at : at + len(data)] = data
        return self

    def raw(self):
        return bytes(self.data[: self.size])

    def _chain(self, at, identity):
        self.data[self._link] = at
        self.data[at], self.data[at + 1] = identity, 0
        self._link = at + 1

    def _extend(self, at, identity, body, version=1):
        if self._extended:
            (head,) = struct.unpack_from("<I", self.data, self._extended)
            struct.pack_into("<I", self.data, self._extended, head & 0xFFFFF | at << 20)
        else:
            assert at == 0x100, "the first extended capability stands at 0x100"
        struct.pack_into("<I", self.data, at, identity | version << 16)
        self.data[at + 4 : at + 4 + len(body)] = body
        self._extended = at
        return self


@pytest.fixture(scope="session")
def config_bytes():
    return ConfigBytes
