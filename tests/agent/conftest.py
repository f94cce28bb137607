import pytest


class SysTree:
    """A /sys and /proc made of files, with the symbolic links that a kernel makes."""

    def __init__(self, root):
        self.root = root
        self.write("proc/sys/kernel/osrelease", "6.1.0-test\n")
        self.write("proc/cmdline", "quiet iommu=pt\n")
        self.write("proc/sys/kernel/random/boot_id", "0c7b8a52-0000-0000-0000-000000000001\n")
        (root / "sys/bus/pci/devices").mkdir(parents=True)
        (root / "sys/bus/pci/slots").mkdir(parents=True)

    def write(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def function(self, *walk, config=b"", **files):
        """Add the function at the end of ``walk`` (host bridge, then addresses); keywords are its files."""
        bdf = walk[-1]
        place = "/".join(("sys/devices", *walk))
        resource = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 13
        content = {
            "vendor": "0x10de\n", "device": "0x1e78\n", "subsystem_vendor": "0x10de\n", "subsystem_device": "0x13d8\n",
            "class": "0x030200\n", "revision": "0xa1\n", "resource": resource, "enable": "1\n", "numa_node": "0\n",
            "local_cpulist": "0-23\n", "power_state": "D0\n", "config": config or bytes(4096), **files,
        }  # fmt: skip
        for name, text in content.items():
            if text is not None:
                self.write(f"{place}/{name}", text)
        self.link(f"sys/bus/pci/devices/{bdf}", f"../../../devices/{'/'.join(walk)}")
        return self.root / place

    def link(self, path, target):
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


@pytest.fixture
def sys_tree(tmp_path):
    return SysTree(tmp_path)
