"""What the workers ``nvml`` and ``telemetry`` print on the modelled machine.

Figures that are no invention of this lab:

* 45556 MiB and 250 W with ECC on: public nvidia-smi listings of Quadro RTX 8000 (48601 MiB and 260 W with ECC off).
* A GPU at rest idles down to Gen1 and says so with the clocks reason "idle" (0x1): nvml.h.
* P2P status 0 (OK) for every pair across both sockets of a Cascade Lake machine: the all-yes peer matrix that TensorFlow printed
  on eight RTX 8000 with two Xeon Gold 6230 (lambdal/lambda-tensorflow-benchmark). The codes are nvml.h's.
* Fields that a driver answers with "Not Supported" for a card: nvidia-smi prints N/A there; page retirement is one where a card
  remaps rows instead (nvml.h).

ECC is on. VBIOS versions, temperatures and idle power are invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.lab.model.cards import Card, cards, line, vary
from harness.lab.model.driver import DRIVER_VERSION, UNINITIALISED, bound_driver
from harness.lab.model.parts import View, serial_in
from harness.lab.model.pcie_host import gpu_addresses

_MIB = 1 << 20
_MEMORY = 45556 * _MIB
_VBIOS, _OTHER_VBIOS = "90.02.30.00.05", "90.02.17.00.02"
_ONE_SWITCH, _SYSTEM = 10, 50
_NO_ATOMICS = 5
"""Over PCIe this generation has no native atomics."""

_NO_TURING_HAS = ("remapped_rows",)
"""Row remapping came with Ampere (NVIDIA's memory error management documentation); Turing retires pages."""

_NOT_SUPPORTED = (
    "serial",
    "bar1",
    "corrected",
    "retired_single",
    "retired_double",
    "retirement_pending",
    "reasons",
    "power",
    "power_cap",
    "persistence",
)

RETIRING = "jbogA/slot06"
OLD_REPLAYS = "jbogA/slot05"
OTHER_VBIOS = "jbogA/slot09"
REPLAYING = "jbogB/slot01"
SHORT_OF_MEMORY = "jbogB/slot09"
OTHER_SERIAL = "jbogA/slot08"


def nvml(view: View, arguments: Sequence[str]) -> Iterable[tuple[float, str]]:
    """The lines of ``nvml [--watch SECONDS]``."""
    watch = option(arguments, "--watch", 30.0)
    yield 0.2, line("hello", worker="nvml", schema=1, python="3.6.8")
    trouble = _trouble(view)
    if trouble:
        yield 0.3, line("error", what="NVML", why=trouble[0], do=trouble[1])
        return
    listed = cards(view)
    missing = "gpu.nvml-count" in view.faults and UNINITIALISED in gpu_addresses(view)
    count = len(listed) + missing
    yield 0.9, line("system", driver=DRIVER_VERSION, nvml=f"12.{DRIVER_VERSION}", cuda="12.2", count=count)
    for card in listed:
        yield 1.5 + watch, _gpu(view, card, watch)
    if missing:
        yield 1.5 + watch, line("gpu", index=len(listed), error="Unknown Error")
    for card in listed:
        yield 2.0 + watch, _peers(card, listed)
    if "p2p.preflight" in view.faults and listed:
        yield 2.1 + watch, line("process", index=0, pid=2117, name="Xorg", type="graphics", memory=41 * _MIB)


def telemetry(view: View, arguments: Sequence[str]) -> Iterable[tuple[float, str]]:
    """The lines of ``telemetry [--seconds S] [--every S]``: one sample of each GPU per interval, at rest."""
    seconds, every = option(arguments, "--seconds", 10.0), option(arguments, "--every", 1.0)
    yield 0.2, line("hello", worker="telemetry", schema=1, python="3.6.8")
    trouble = _trouble(view)
    if trouble:
        yield 0.3, line("error", what="NVML", why=trouble[0], do=trouble[1])
        return
    for step in range(max(1, int(seconds / every))):
        for card in cards(view):
            power = round(28.0 + 4.0 * vary("power", card.slot, step), 1)
            yield (
                0.9 + step * every,
                line("sample", at=round(step * every, 3), index=card.index, reasons=1, power=power, temperature=_temperature(card)),
            )


def option(arguments: Sequence[str], name: str, default: float) -> float:
    """The number after ``name``, as the workers' command lines have it."""
    return float(arguments[list(arguments).index(name) + 1]) if name in arguments else default


def _trouble(view: View) -> tuple[str, str] | None:
    """Why NVML cannot start, and what to do, in the words of the library and of the worker."""
    if bound_driver(view.faults) != "nvidia" or not gpu_addresses(view):
        return "Driver Not Loaded", "load the nvidia module: the kernel log says why it is not there"
    if "gpu.nvml" in view.faults:
        return (
            "Driver/library version mismatch",
            "reboot, or reload the nvidia modules: the driver was updated under a running kernel",
        )
    return None


def _gpu(view: View, card: Card, watch: float) -> str:
    faults, slot = view.faults, card.slot
    old = 150 if "benign.old-replays" in faults and slot == OLD_REPLAYS else 0
    # eighty a minute: ten times what Gen3 x16 may have at a bit error rate of 1e-12
    new = round(watch * 80 / 60) if "gpu.replay-rate" in faults and slot == REPLAYING else 0
    retiring = "gpu.ecc" in faults and slot == RETIRING
    # one of the twelve memory partitions of a TU102 is off; an assumption
    memory = _MEMORY * 11 // 12 if "gpu.memory" in faults and slot == SHORT_OF_MEMORY else _MEMORY
    fields = {
        "index": card.index,
        "address": card.address,
        "device": "10de:1e78",
        "subsystem": "10de:13d8",
        "uuid": card.gpu.uuid,
        "serial": _serial(card, faults),
        "name": "Quadro RTX 8000",
        "vbios": _OTHER_VBIOS if "gpu.alike" in faults and slot == OTHER_VBIOS else _VBIOS,
        "memory": memory,
        "bar1": 256 * _MIB,
        "ecc": True,
        "ecc_pending": True,
        "corrected": 0,
        "uncorrected": 1 if retiring else 0,
        "retired_single": 0,
        "retired_double": 1 if retiring else 0,
        "retirement_pending": retiring,
        "generation": 1,
        "width": 16,
        "max_generation": 3,
        "max_width": 16,
        "replays": old,
        "replays_later": old + new,
        "replay_seconds": watch,
        "reasons": 1,
        "power": round(28.0 + 4.0 * vary("power", slot), 1),
        "power_cap": 250.0,
        "temperature": _temperature(card),
        "persistence": True,
    }
    missing = (*_NO_TURING_HAS, *(_NOT_SUPPORTED if "benign.nvml-not-supported" in faults else ()))
    unread = dict.fromkeys(missing, "Not Supported")
    return line("gpu", **{name: value for name, value in fields.items() if name not in unread}, unread=unread)


def _serial(card: Card, faults: frozenset[str]) -> str:
    """What the board's own memory says; with the fault a number that nobody else knows, as after a repair."""
    is_other = "gpu.four-view" in faults and card.slot == OTHER_SERIAL
    return f"{int(card.gpu.serial) + 70:013d}" if is_other else serial_in(card.gpu, faults)


def _peers(card: Card, listed: Sequence[Card]) -> str:
    status = [None if other is card else 0 for other in listed]
    level = [None if other is card else _ONE_SWITCH if other.gpu.chassis is card.gpu.chassis else _SYSTEM for other in listed]
    atomics = [None if other is card else _NO_ATOMICS for other in listed]
    return line("peers", index=card.index, read=status, write=status, atomics=atomics, level=level)


def _temperature(card: Card) -> int:
    return round(33 + 3 * vary("temperature", card.slot))
