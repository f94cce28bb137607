"""The twenty GPUs of the modelled machine: where they sit and who they are. All identities are invented.

Each HBA of the R640 leads to one expansion chassis of ten cards: PCIe slot 1 (host bridge PC02, bus 3a) to jbogA, slot 3 (PC09,
bus d7, behind CPU 2) to jbogB. Ten is what fits: a passive card needs 16 MiB of 32-bit space for BAR0 and a stack of a recorded
R640 (BIOS 1.5.6) has 216 MiB, so twenty would never fit behind one slot.

    pci0000:3a ─ 00.0 root port ─ 00.0 HBA upstream ─ 00.0 HBA downstream ══ cable ══ 00.0 chassis upstream ─ NN.0 ─ 00.0 GPU
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

SERVICE_TAG = "MODEL01"
NEIGHBOUR_TAG = "MODEL02"
BMC_USER = "bringup"
BMC_PASSWORD = "model-lab-only"  # noqa: S105 - the credentials of a machine that exists only inside this process
CERTIFICATE_PIN = "sha256:" + "5a" * 32

_NAMESPACE = uuid.UUID("6b1d3c1e-6f0e-4f5e-9a53-7a3f0c0de000")
_BOOTS = uuid.UUID("0d5a5c57-2f9d-4f0c-8f64-5b1f9a9d9a10")


@dataclass(frozen=True)
class Chassis:
    """An expansion chassis: its name, the host bridge and the Dell slot its HBA sits in, and its socket."""

    name: str
    bridge: str
    root_bus: int
    hba: str
    numa_node: int
    first_slot_number: int


@dataclass(frozen=True)
class ModelGpu:
    """One GPU; ``number`` counts 1 to 20 over both chassis, ``port`` is the device number of its downstream port."""

    number: int
    chassis: Chassis
    port: int

    @property
    def slot(self) -> str:
        """The place, as in ``jbogA/slot01``."""
        return f"{self.chassis.name}/slot{self.port:02d}"

    @property
    def path(self) -> str:
        """The walk through the PCIe tree to function 0."""
        return f"{self.chassis.bridge}/00.0/00.0/00.0/00.0/{self.port:02x}.0/00.0"

    @property
    def serial(self) -> str:
        """The serial number as NVML and the fabric print it."""
        return f"99900000{self.number:05d}"

    @property
    def uuid(self) -> str:
        """The UUID as NVML prints it."""
        return f"GPU-{uuid.uuid5(_NAMESPACE, self.serial)}"


CHASSIS = (
    Chassis("jbogA", "pci0000:3a", 0x3A, "PCIe Slot 1", 0, 1),
    Chassis("jbogB", "pci0000:d7", 0xD7, "PCIe Slot 3", 1, 21),
)
GPUS = tuple(ModelGpu(10 * index + port, chassis, port) for index, chassis in enumerate(CHASSIS) for port in range(1, 11))
SLOTS = frozenset(gpu.slot for gpu in GPUS)

STRANGER = ModelGpu(21, CHASSIS[0], 11)
"""A GPU in an eleventh port, which no platform names: the fault ``gpu.unexpected``."""

NEIGHBOURS = ModelGpu(99, Chassis("jbogC", "pci0000:3a", 0x3A, "PCIe Slot 1", 0, 1), 4)
"""A GPU of the neighbour in a chassis that this machine has no cable to."""

SWAPPED = "jbogB/slot02"
"""The slot in which the neighbour's GPU sits under the fault ``pcie.four-view.system``: its own serial number, in our slot."""


def serial_in(slot: ModelGpu, faults: frozenset[str]) -> str:
    """The serial number that the card in a slot has, whatever the fabric's list says."""
    return NEIGHBOURS.serial if "pcie.four-view.system" in faults and slot.slot == SWAPPED else slot.serial


def present(faults: frozenset[str], populated: frozenset[str]) -> tuple[ModelGpu, ...]:
    """The GPUs that are plugged in, in the order of their buses."""
    stranger = (STRANGER,) if "gpu.unexpected" in faults else ()
    plugged = (*(gpu for gpu in GPUS if gpu.slot in populated), *stranger)
    return tuple(sorted(plugged, key=lambda gpu: (gpu.chassis.root_bus, gpu.port)))


def boot_id(boot: int) -> str:
    """The kernel's random id of one boot; the same in every run of the model."""
    return str(uuid.uuid5(_BOOTS, f"boot {boot}"))


@dataclass(frozen=True)
class View:
    """What the hardware of the model looks like at one moment.

    ``faults`` are the ids switched on, ``boot`` counts the boots so far, ``bios`` holds the attributes in effect since
    the last boot, ``now`` is the clock's time in seconds. ``populated`` are the slots of the platform with a GPU in them.
    """

    faults: frozenset[str]
    boot: int
    bios: dict[str, str | int]
    now: float
    populated: frozenset[str] = SLOTS

    @property
    def gpus(self) -> tuple[ModelGpu, ...]:
        """The GPUs that are plugged in, in the order of their buses."""
        return present(self.faults, self.populated)
