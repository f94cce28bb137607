import struct

import pytest


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

    def ari(self, at):
        return self._extend(at, 0x000E, b"\0" * 4)

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


@pytest.fixture
def function_line():
    """A function line as the agent prints it; keywords replace keys."""

    def line(**changed):
        base = {
            "kind": "function", "bdf": "0000:3b:00.0", "path": "pci0000:3a/00.0/00.0", "parent": "0000:3a:00.0",
            "vendor": "10de", "device": "1e78", "subsystem_vendor": "10de", "subsystem_device": "13d8", "class": "030200",
            "revision": "a1", "resource": [[0, 0, 0]] * 13, "power_state": "D0",
            "link": {"current_speed": 2.5, "current_width": 16, "max_speed": 8.0, "max_width": 16},
            "numa_node": 0, "local_cpulist": "0-23", "iommu_group": None, "driver": "nvidia", "enable": 1,
            "secondary_bus": None, "subordinate_bus": None, "aer": None, "sriov_total": None, "sriov_enabled": None,
            "physical": "", "config": None, "config_length": 0,
        }  # fmt: skip
        assert not changed.keys() - base.keys()
        return {**base, **changed}

    return line
