import pytest


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
