"""The platform: what a machine should be. Limits and slots, never which tests run.

A slot's ``path`` is a walk through the PCIe tree that survives renumbering: the host bridge as sysfs names it, then one
``device.function`` a hop, the last one being the part itself, for example ``pci0000:3a/00.0/00.0/04.0/00.0``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from harness.config import AnyLimit, Bytes, Model, Number, Seconds, limit_in, load, quantity_in
from harness.errors import ConfigError
from harness.limits import Limit, at_least, at_most, exactly, one_of
from harness.secret import holds_secret

_PATH = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}(/[0-9a-f]{2}\.[0-7])+")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}")
_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")

Lanes = Annotated[Limit, limit_in("lanes")]
Generation = Annotated[Limit, limit_in("generation")]


class Link(Model):
    """What a PCIe link must reach: under load for the generation, always for the width."""

    generation: Generation
    width: Lanes


class Memory(Model):
    """Frame-buffer sizes as the driver reports them, in bytes, and how far off they may be in percent."""

    ecc_off: Bytes
    ecc_on: Bytes
    within: Annotated[float, Field(ge=0, le=10), quantity_in("%")] = 1.0


class FurtherFunction(Model):
    """Another function of a part, such as audio or USB: it takes address space and is never counted. ``wide`` as in DeviceModel."""

    name: str
    bars: dict[int, Bytes]
    wide: tuple[int, ...] = ()


class VirtualFunctions(Model):
    """What SR-IOV asks for where it is on: ``count`` times the BARs of one virtual function. ``wide`` as in DeviceModel."""

    count: Annotated[int, Field(ge=1)]
    bars: dict[int, Bytes]
    wide: tuple[int, ...] = ()


class DeviceModel(Model):
    """One kind of part that may sit in a slot; ``device`` and ``subsystem`` are ``vendor:device`` in lower hex.

    Only a budget reads the rest of what takes address space. ``assumed`` are memory BARs whose size nobody has published, never
    judged; ``wide`` the 64-bit prefetchable ones, without it all but BAR 0, as on NVIDIA GPUs up to Ada; ``io`` BARs of I/O ports.
    """

    name: str
    device: str
    subsystem: str = ""
    class_code: str = Field("", alias="class")
    memory: Memory | None = None
    bars: dict[int, Bytes] = Field(default_factory=dict)
    assumed: dict[int, Bytes] = Field(default_factory=dict)
    wide: tuple[int, ...] | None = None
    io: dict[int, Bytes] = Field(default_factory=dict)
    rom: Bytes | None = None
    functions: tuple[FurtherFunction, ...] = Field((), alias="function")
    virtual: VirtualFunctions | None = None
    link: Link | None = None
    ceiling: Annotated[float | None, quantity_in("GB/s"), Field(description="GB/s one way on this link, raw")] = None

    @field_validator("device", "subsystem")
    @classmethod
    def _is_id(cls, value: str) -> str:
        if value and not _ID.fullmatch(value):
            raise ValueError(f"{value!r} is not vendor:device in lower-case hex, such as '10de:1e30'")
        return value


class Slot(Model):
    """A place where a part is expected. ``model`` empty: any model of the platform."""

    name: str
    path: str
    uplink: str = ""
    model: str = ""
    hba: str = ""

    @field_validator("path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if not _PATH.fullmatch(value):
            raise ValueError(f"{value!r} is not a path such as 'pci0000:3a/00.0/04.0'")
        return value

    def __str__(self) -> str:
        return self.name


class Uplink(Model):
    """A link that several slots share, such as the cable to an expansion chassis; ``path`` ends at its port on the host side."""

    name: str
    path: str
    link: Link

    @field_validator("path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        return Slot._is_path(value)

    def __str__(self) -> str:
        return self.name


class Stack(Model):
    """What firmware hands out at the host bridge behind a slot of the server, for budgets: bytes, and a count of bus numbers.

    ``low`` is memory below 4 GiB, ``wide`` memory above, ``low_at`` and ``wide_at`` where they begin ("" for a place that costs no
    alignment). ``source`` says who saw it where; ``inferred`` that nobody has seen it for this very slot.
    """

    slot: str
    root: str
    low: Bytes
    wide: Bytes | None = None
    io: Bytes | None = None
    buses: Annotated[int, Field(ge=1, le=256)]
    low_at: str = ""
    wide_at: str = ""
    source: str
    inferred: bool = False

    @field_validator("root")
    @classmethod
    def _is_root(cls, value: str) -> str:
        if not _ROOT.fullmatch(value):
            raise ValueError(f"{value!r} is not a host bridge such as 'pci0000:3a'")
        return value

    @field_validator("low_at", "wide_at")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if value and not _ADDRESS.fullmatch(value):
            raise ValueError(f"{value!r} is not an address such as '0xab000000'")
        return value

    def __str__(self) -> str:
        return self.slot


class Bios(Model):
    """BIOS versions and attributes; ``forbidden_events`` are message-id suffixes that the LC log must not gain."""

    minimum: str = ""
    deny: tuple[str, ...] = ()
    attributes: dict[str, AnyLimit] = Field(default_factory=dict)
    forbidden_events: tuple[str, ...] = ()

    @field_validator("attributes", mode="before")
    @classmethod
    def _holds_no_password(cls, value: object) -> object:
        for name in value if isinstance(value, Mapping) else ():
            if holds_secret(str(name)):
                raise ValueError(f"a password never stands in the file, and none is ever set: leave {name} out")
        return value


class FirmwareBaseline(Model):
    """Versions that one kind of firmware must reach or must not be: by Dell's component id, by a pattern of its FQDD, or both."""

    name: str
    component: str = ""
    place: str = ""
    minimum: str = ""
    deny: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _says_what_and_how(self) -> FirmwareBaseline:
        if not self.component and not self.place:
            raise ValueError('give a component such as "25227" (iDRAC), or a place such as "NIC\\\\..*"')
        if not self.minimum and not self.deny:
            raise ValueError("give a minimum, or versions to deny")
        try:
            re.compile(self.place)
        except re.error as error:
            raise ValueError(f"place {self.place!r} is no pattern: {error}") from None
        return self


class Boot(Model):
    """How long a boot may take: seconds without a new POST stage, and in all; resets that a BIOS job may add.

    ``usual`` is how long one takes on a machine in order, for whoever waits to compare with; 0 where nobody has said.
    """

    no_progress: Seconds = 900.0
    within: Seconds = 2700.0
    usual: Seconds = 0.0
    extra_resets: Annotated[int, Field(ge=0)] = 2


class Pcie(Model):
    """What holds for the whole tree.

    ``ports_with_link_errors`` limits, for each slot, the hops whose status register holds a corrected link error. None records and
    does not judge: the register says that there was one since it was last cleared, not how many, and links of healthy machines
    show some of their training. ``switch_bar`` is the register BAR of a switch's upstream port, which budgets count.
    """

    iommu: AnyLimit = Field(default_factory=lambda: one_of("off", "identity"))
    acs_redirect_between_gpus: Number = Field(default_factory=lambda: exactly(0))
    corrected_errors: Annotated[Limit, limit_in("/min")] = Field(default_factory=lambda: at_most(8, "/min"))
    ports_with_link_errors: Number | None = None
    max_payload: Annotated[Limit, limit_in("B")] = Field(default_factory=lambda: one_of(128, 256, unit="B"))
    switch_bar: Bytes | None = None


class Gpu(Model):
    """What the driver must say of every GPU."""

    uncorrected_ecc: Number = Field(default_factory=lambda: exactly(0))
    pending_retirement: Number = Field(default_factory=lambda: exactly(0))
    replay_rate: Annotated[Limit, limit_in("/min")] = Field(default_factory=lambda: at_most(8, "/min"))


class P2p(Model):
    """How peer-to-peer copies are judged; bandwidths in GB/s (1e9), latencies in microseconds."""

    peers: Annotated[int, Field(ge=1)] = 8
    bad_bytes: Annotated[Limit, limit_in("B")] = Field(default_factory=lambda: exactly(0, "B"))
    ceiling: Annotated[Limit, limit_in("GB/s")] = Field(default_factory=lambda: at_most(15.75, "GB/s"))
    nvlink_ceiling: Annotated[Limit, limit_in("GB/s")] = Field(default_factory=lambda: at_most(50.0, "GB/s"))
    staged_ratio: Annotated[float, Field(gt=1)] = 1.05
    staged_latency: Annotated[float, Field(gt=0), quantity_in("us")] = 9.0
    contention_ratio: Number = Field(default_factory=lambda: at_least(0.5))
    both_ways_ratio: Number = Field(default_factory=lambda: at_least(1.2))


class Floor(Model):
    """A ResNet-50 floor for one software identity. Another identity is recorded, not judged."""

    framework: Literal["tensorflow", "pytorch", "mxnet"]
    precision: Literal["fp16", "fp32", "amp", "bf16", "tf32"]
    compiler: str
    batch: Annotated[int, Field(ge=1)]
    images_per_second_per_gpu: Annotated[Limit, limit_in("images/s")]


class Resnet50(Model):
    """How the smoke test is judged. Ratios are fractions, spread is in percent."""

    floors: tuple[Floor, ...] = Field((), alias="floor")
    efficiency: Number = Field(default_factory=lambda: at_least(0.85))
    solo: Number = Field(default_factory=lambda: at_least(0.95))
    spread: Annotated[Limit, limit_in("%")] = Field(default_factory=lambda: at_most(3, "%"))


class Platform(Model):
    """What a machine should be."""

    schema_version: int = Field(1, alias="schema")
    name: str
    system: str = ""
    optional: tuple[str, ...] = ()
    bios: Bios = Field(default_factory=Bios)
    firmware: tuple[FirmwareBaseline, ...] = ()
    boot: Boot = Field(default_factory=Boot)
    models: tuple[DeviceModel, ...] = Field((), alias="model")
    slots: tuple[Slot, ...] = Field((), alias="slot")
    uplinks: tuple[Uplink, ...] = Field((), alias="uplink")
    stacks: tuple[Stack, ...] = Field((), alias="stack")
    pcie: Pcie = Field(default_factory=Pcie)
    gpu: Gpu | None = None
    p2p: P2p = Field(default_factory=P2p)
    resnet50: Resnet50 = Field(default_factory=lambda: Resnet50(floor=()))

    @model_validator(mode="after")
    def _refers_to_what_it_has(self) -> Platform:
        stacks = [stack.slot for stack in self.stacks]
        for kind, names in (("slot", self.slots), ("uplink", self.uplinks), ("model", self.models), ("stack", stacks)):
            listed = [entry if isinstance(entry, str) else entry.name for entry in names]
            for name in listed:
                if listed.count(name) > 1:
                    raise ValueError(f"{kind} {name!r} stands twice")
        paths = [slot.path for slot in self.slots]
        for slot in self.slots:
            if paths.count(slot.path) > 1:
                raise ValueError(f"slot {slot.name!r} has the path of another slot, {slot.path!r}")
        uplinks = {uplink.name for uplink in self.uplinks}
        models = {model.name for model in self.models}
        for slot in self.slots:
            if slot.uplink and slot.uplink not in uplinks:
                raise ValueError(f"slot {slot.name!r} names the unknown uplink {slot.uplink!r}")
            if slot.model and slot.model not in models:
                raise ValueError(f"slot {slot.name!r} names the unknown model {slot.model!r}")
            for stack in self.stacks:
                if stack.slot == slot.hba and not slot.path.startswith(f"{stack.root}/"):
                    raise ValueError(f"slot {slot.name!r} is not below {stack.root}, where its hba {slot.hba!r} is by its stack")
        return self

    def slot(self, name: str) -> Slot:
        """The slot of that name. Raises KeyError."""
        return next(slot for slot in self.slots if slot.name == name)

    def models_for(self, slot: Slot) -> tuple[DeviceModel, ...]:
        """The models that may sit in ``slot``."""
        return tuple(model for model in self.models if slot.model in ("", model.name))

    def populated(self, names: Sequence[str] | None) -> tuple[Slot, ...]:
        """The slots a bench says are populated; all of them when it says nothing."""
        return self.slots if names is None else tuple(slot for slot in self.slots if slot.name in names)


def load_platform(text: str, where: str) -> Platform:
    """Read a platform file. Raises ConfigError; a platform that declares no slot is one."""
    platform = load(Platform, text, where)
    if not platform.slots:
        raise ConfigError(where, "the platform declares no slot, so nothing could be missing; add [[slot]] tables", key="slot")
    return platform
