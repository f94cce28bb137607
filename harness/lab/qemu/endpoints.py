"""A virtual machine with everything that a client of a real one needs: Redfish over TLS, a console, ssh.

open_qemu ─▶ Endpoints     BMC URL, pin and login · console URL · ssh · service tag
    the end of the block leaves nothing: no process, no socket, no file
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.clock import WallClock
from harness.errors import BenchError
from harness.lab.idrac.application import IdracApplication
from harness.lab.qemu.door import Door
from harness.lab.qemu.hardware import SERVICE_TAG
from harness.lab.qemu.image import Image, find_image
from harness.lab.qemu.machine import BMC_PASSWORD, BMC_USER, QemuMachine
from harness.lab.qemu.tools import find_tools
from harness.lab.qemu.workplace import Workplace


@dataclass(frozen=True)
class Endpoints:
    """Where the machine is reached. ``pin`` is ``sha256:`` and 64 hex digits, ``console_url`` a pyserial URL.

    ``door`` is what ssh needs.
    """

    bmc_url: str
    pin: str
    user: str
    password: str
    console_url: str
    door: Door
    service_tag: str
    machine: QemuMachine


class _InTurn(IdracApplication):
    """The application, one at a time with the machine's own thread."""

    def __init__(self, machine: QemuMachine) -> None:
        super().__init__(machine)
        self._machine = machine

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, client: str = "local"
    ) -> tuple[int, dict[str, str], bytes]:
        with self._machine.turn:
            return super().handle(method, path, headers, body, client=client)


@contextmanager
def open_qemu(
    clock: WallClock,
    faults: frozenset[str] = frozenset(),
    *,
    image: Image | None = None,
    root: Path | None = None,
    port: int = 0,
    delivered: bool = True,
) -> Iterator[Endpoints]:
    """The machine, switched off, until the block ends. ``root`` is where it keeps its files, ``port`` that of the BMC.

    ``delivered``: the BIOS is as the machine comes; False for one that was brought up before.

    Raises BenchError where QEMU, OVMF, the image or the ``lab`` extra is missing, saying what to do.
    """
    tools = find_tools()
    image = find_image() if image is None else image
    try:
        import cheroot.server  # noqa: F401
        import cryptography  # noqa: F401

        from harness.lab.idrac.serve import serve
    except ImportError as error:
        raise BenchError(f"the virtual lab needs {error.name}: pip install 'bringup-harness[lab]'") from None
    with (
        QemuMachine(clock, tools, image, faults, Workplace(root), is_delivered=delivered) as machine,
        serve(_InTurn(machine), port=port) as served,
    ):
        yield Endpoints(served.url, served.pin, BMC_USER, BMC_PASSWORD, machine.console_url, machine.door, SERVICE_TAG, machine)
