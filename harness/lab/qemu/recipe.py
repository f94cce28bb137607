"""What the lab's image is made of: Debian packages, the files taken from them, and the few files of our own.

PID 1 is busybox init: rc mounts and names the machine, getty asks for a login on ttyS0, acpid turns the power button into
poweroff, dropbear lets in whoever has the machine's own key. ``reboot`` and ``poweroff`` are busybox's. root has no password on
the console: the machine exists only on the loopback of whoever starts it.
"""

from __future__ import annotations

import hashlib
import re

KERNEL_PACKAGE = "linux-image-cloud-amd64"
"""Debian's kernel for virtual machines: serial console, NVMe, AER and native hot-plug are built in. A name for the newest one."""

PACKAGES = (
    "busybox-static",
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libc6",
    "zlib1g",
    "libexpat1",
    "pciutils",
    "pci.ids",
    "libpci3",
    "libkmod2",
    "libudev1",
    "liblzma5",
    "libzstd1",
    "libssl3",
    "dropbear-bin",
    "libtomcrypt1",
    "libtommath1",
    "libgmp10",
    "libcrypt1",
)
"""python3.11-minimal alone has no json; the libraries after pciutils are what lspci is linked with, those after
dropbear-bin what the ssh server is linked with (half a megabyte in all; OpenSSH's server wants PAM, Kerberos and systemd)."""

MODULES = ("kernel/drivers/acpi/button.ko", "kernel/drivers/input/evdev.ko", "kernel/drivers/net/vmxnet3/vmxnet3.ko")
"""Kernel modules of the image: a power button, the way busybox acpid hears of it, and a network card. This card, because its driver
is one module and OVMF has none for it: firmware that finds nothing to boot would else try the network for minutes."""

HOST_KEY = "etc/ssh/host_key"
KNOWN_KEYS = "root/.ssh/authorized_keys"
"""Where a machine's own keys lie in its file system, in OpenSSH's forms; without them no ssh server is started."""

NETWORK_CARD = "enp0s2"
"""The only card that is configured: the one on bus 0 in slot 2. On any other bus it has another name, and stays down."""

_KEPT = re.compile(r"""
      bin/busybox
    | usr/bin/(python3\.11|lspci|setpci|dropbearconvert)
    | usr/sbin/dropbear
    | usr/lib/python3\.11/.+
    | usr/lib/python3\.11/lib-dynload/.+
    | usr/share/misc/pci\.ids(\.gz)?
    | (usr/)?lib64/.+
    | (usr/)?lib/x86_64-linux-gnu/[^/]+\.so(\.[\d.]+)?
""", re.VERBOSE)  # fmt: skip
_DROPPED = re.compile(
    r"usr/lib/python3\.11/(test|idlelib|ensurepip|lib2to3|tkinter|turtledemo|pydoc_data|distutils|config-[^/]*|unittest|sqlite3|curses)/"
)

HOST_NAME = "virtual-r640"

FILES: dict[str, tuple[int, str]] = {
    "etc/inittab": (
        0o644,
        """\
::sysinit:/etc/rc
ttyS0::respawn:/bin/getty -L ttyS0 115200 vt100
::ctrlaltdel:/bin/reboot
""",
    ),
    "etc/rc": (
        0o755,
        f"""\
#!/bin/sh
export PATH=/bin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t devpts pts /dev/pts
hostname {HOST_NAME}
for module in button evdev vmxnet3; do insmod /lib/modules/$module.ko; done
acpid -l /dev/null
/etc/network &
case $(cat /proc/cmdline) in *lab.numbers*) while cat /proc/uptime; do sleep 1; done >/dev/ttyS1 & esac
""",
    ),
    "etc/network": (
        0o755,
        f"""\
#!/bin/sh
# A card is called by where it sits, as systemd's predictable names are: enp, bus, s, slot.
for card in /sys/class/net/eth*; do
    place=$(basename $(readlink $card/device))
    ip link set ${{card##*/}} name enp$((0x${{place:5:2}}))s$((0x${{place:8:2}}))
done
ip link set lo up
ip address add 10.0.2.15/24 dev {NETWORK_CARD} && ip link set {NETWORK_CARD} up
test -f /{HOST_KEY} && dropbearconvert openssh dropbear /{HOST_KEY} /run/host_key 2>/dev/null && dropbear -s -r /run/host_key
""",
    ),
    "etc/acpi/PWRF/00000080": (0o755, "#!/bin/sh\nexec /bin/poweroff\n"),
    "etc/passwd": (0o644, "root::0:0:root:/root:/bin/sh\n"),
    "etc/group": (0o644, "root:x:0:\n"),
    "etc/profile": (0o644, "export PATH=/bin:/usr/bin\n"),
    "etc/hostname": (0o644, f"{HOST_NAME}\n"),
    "etc/os-release": (0o644, 'ID=bringup-lab\nPRETTY_NAME="bringup-harness virtual lab"\n'),
}
"""Our own files: path, mode and text."""

FOLDERS = ("proc", "sys", "dev", "tmp", "run", "root")


def is_kept(path: str) -> bool:
    """Whether a file of a package, by its path without leading ``./``, goes into the image."""
    return _KEPT.fullmatch(path) is not None and _DROPPED.match(path) is None


def place(path: str) -> str:
    """Where it goes: below usr for what Debian is moving there, so that one lib folder serves both."""
    return f"usr/{path}" if path.startswith(("lib/", "lib64/")) else path


def digest(versions: int = 1) -> str:
    """What the recipe is called; another one after any change of it. ``versions`` is the form of the archive and its manifest."""
    text = repr((versions, KERNEL_PACKAGE, PACKAGES, MODULES, _KEPT.pattern, _DROPPED.pattern, FILES, FOLDERS))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
