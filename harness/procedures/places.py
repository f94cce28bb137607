"""Which slot a GPU of a worker's report sits in. CUDA's order is not NVML's, so the UUID decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.devices.gpu import Gpu
from harness.platform import Slot


class Seen(Protocol):
    """A GPU as some worker reports it."""

    @property
    def index(self) -> int:
        """The worker's own number."""

    @property
    def address(self) -> str:
        """Where it is on the bus."""

    @property
    def uuid(self) -> str:
        """Who it is."""


@dataclass(frozen=True)
class Place:
    """A slot and the uplink it is behind; a GPU in no known slot has its address for a slot."""

    slot: str
    uplink: str = ""

    def __str__(self) -> str:
        return self.slot


def find_places(seen: Iterable[Seen], gpus: Mapping[str, Gpu], slots: Iterable[Slot]) -> dict[int, Place]:
    """The place of every GPU by the worker's index: by UUID, or by address where the worker has no UUID."""
    uplinks = {slot.name: slot.uplink for slot in slots}
    by_uuid = {gpu.uuid: name for name, gpu in gpus.items() if gpu.uuid}
    by_address = {gpu.address: name for name, gpu in gpus.items() if gpu.address}
    places = {}
    for gpu in seen:
        name = by_uuid.get(gpu.uuid) if gpu.uuid else by_address.get(gpu.address)
        places[gpu.index] = Place(name, uplinks.get(name, "")) if name else Place(gpu.address or f"GPU {gpu.index}")
    return places


def index_of(places: Mapping[int, Place], slot: str) -> int | None:
    """The worker's index of the GPU in a slot, None where the worker did not see it."""
    return next((index for index, place in places.items() if place.slot == slot), None)
