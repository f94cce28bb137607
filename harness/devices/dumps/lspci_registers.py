"""The registers that the text of ``lspci -vvv`` tells, from the lines of one function to the same facts that bytes give.

lines["LnkSta"] = "Speed 8GT/s (ok), Width x16 (ok) TrErr- Train- SlotClk+ DLActive+"      ─┐
lines["ACSCtl"] = "SrcValid+ TransBlk- ReqRedir- ..."                                       ├─ ConfigSpace, told and not read
a name with a plus is a bit that is set                                                    ─┘
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.devices.pcie import (
    Acs,
    Aer,
    ConfigSpace,
    Dpc,
    Express,
    LinkRegisters,
    PortType,
    ResizableBar,
    SlotRegisters,
    Sriov,
    generation_of,
)

_SPEED = re.compile(r"Speed (?P<speed>[\d.]+|unknown) ?(?:GT/s)?.*?Width x(?P<width>\d+)")
_UNCORRECTABLE = {
    "DLP": 4, "SDES": 5, "TLP": 12, "FCP": 13, "CmpltTO": 14, "CmpltAbrt": 15, "UnxCmplt": 16, "RxOF": 17, "MalfTLP": 18,
    "ECRC": 19, "UnsupReq": 20, "ACSViol": 21, "UncorrIntErr": 22, "BlockedTLP": 23, "AtomicOpBlocked": 24, "TLPBlockedErr": 25,
    "PoisonTLPBlocked": 26,
}  # fmt: skip
_CORRECTABLE = {
    "RxErr": 0, "BadTLP": 6, "BadDLLP": 7, "Rollover": 8, "Timeout": 12, "AdvNonFatalErr": 13, "NonFatalErr": 13, "CorrIntErr": 14,
    "HeaderOF": 15,
}  # fmt: skip
_ACS = {"SrcValid": 0, "TransBlk": 1, "ReqRedir": 2, "CmpltRedir": 3, "UpstreamFwd": 4, "EgressCtrl": 5, "DirectTrans": 6}


@dataclass
class ToldRegisters:
    """What was told of one function while its lines came in: register lines by name, with their continuations."""

    port: PortType | None = None
    version: int = 0
    has_slot: bool = False
    lines: dict[str, str] = field(default_factory=dict)
    rebar: list[ResizableBar] = field(default_factory=list)

    def config(self, *, is_bridge: bool, memory_on: bool) -> ConfigSpace:
        """The registers as facts."""
        return ConfigSpace(
            b"",
            gone=False,
            problems=(),
            header_type=1 if is_bridge else 0,
            command=2 if memory_on else 0,
            express=self._express(),
            aer=self._aer(),
            acs=self._acs(),
            serial=self.lines.get("serial", ""),
            sriov=self._sriov(),
            ari="ari" in self.lines,
            dpc=self._dpc(),
            rebar=tuple(self.rebar),
            told=True,
        )

    def _express(self) -> Express | None:
        if self.port is None or "DevCtl" not in self.lines:
            return None
        control = self.lines["DevCtl"]
        return Express(
            offset=0,
            version=self.version,
            type=self.port,
            payload_most=first_number(r"MaxPayload (\d+)", self.lines.get("DevCap", "")),
            payload=first_number(r"MaxPayload (\d+)", control),
            request=first_number(r"MaxReadReq (\d+)", control),
            extended_tag=_plus(control, "ExtTag"),
            relaxed_ordering=_plus(control, "RlxdOrd"),
            status=_bits(
                self.lines.get("DevSta", ""),
                {"CorrErr": 0, "NonFatalErr": 1, "UncorrErr": 1, "FatalErr": 2, "UnsupReq": 3, "UnsuppReq": 3},
            ),
            link=self._link(),
            slot=self._slot(),
        )

    def _link(self) -> LinkRegisters | None:
        most, now = _SPEED.search(self.lines.get("LnkCap", "")), _SPEED.search(self.lines.get("LnkSta", ""))
        if most is None or now is None:
            return None
        state, reports = self.lines["LnkSta"], "LLActRep+" in self.lines["LnkCap"]
        control = self.lines.get("LnkCtl", "")
        target = re.search(r"Target Link Speed: ([\d.]+)", self.lines.get("LnkCtl2", ""))
        return LinkRegisters(
            generation_most=_generation(most["speed"]),
            width_most=int(most["width"]),
            generation=_generation(now["speed"]),
            width=int(now["width"]),
            active=_plus(state, "DLActive") if reports else None,
            training=_plus(state, "Train"),
            disabled=_plus(control, "Disabled"),
            target=_generation(target[1]) if target else 0,
            aspm=(1 if re.search(r"ASPM L0s", control) else 0) | (2 if re.search(r"ASPM (?:L0s )?L1 Enabled", control) else 0),
        )

    def _slot(self) -> SlotRegisters | None:
        capability, status = self.lines.get("SltCap", ""), self.lines.get("SltSta", "")
        if not self.has_slot or not status:
            return None
        state, _, changed = status.partition("Changed:")
        return SlotRegisters(
            number=first_number(r"Slot #(\d+)", capability),
            hotplug=_plus(capability, "HotPlug"),
            surprise=_plus(capability, "Surprise"),
            presence=_plus(state, "PresDet"),
            presence_changed=_plus(changed, "PresDet"),
            link_changed=_plus(changed, "LinkState"),
            power_fault=_plus(state, "PowerFlt"),
        )

    def _aer(self) -> Aer | None:
        if "UESta" not in self.lines:
            return None
        uncorrectable = [_bits(self.lines.get(key, ""), _UNCORRECTABLE) for key in ("UESta", "UEMsk", "UESvrt")]
        return Aer(*uncorrectable, *(_bits(self.lines.get(key, ""), _CORRECTABLE) for key in ("CESta", "CEMsk")))

    def _acs(self) -> Acs | None:
        if "ACSCtl" not in self.lines:
            return None
        return Acs(_bits(self.lines.get("ACSCap", ""), _ACS), _bits(self.lines["ACSCtl"], _ACS))

    def _sriov(self) -> Sriov | None:
        text = self.lines.get("IOVSta", "")
        if "Total VFs" not in text:
            return None
        return Sriov(*(first_number(rf"{name} VFs: (\d+)", text) for name in ("Initial", "Total", "Number of")))

    def _dpc(self) -> Dpc | None:
        status = self.lines.get("DpcSta", "")
        if not status:
            return None
        reason = first_number(r"Reason:0(\d)", status) & 0x3
        source = re.search(r"Source: ([0-9a-f]{4})", self.lines.get("Source", status))
        trigger = first_number(r"Trigger:(\d)", self.lines.get("DpcCtl", ""))
        return Dpc(trigger, (1 if _plus(status, "Trigger") else 0) | reason << 1, int(source[1], 16) if source else 0)


def _generation(speed: str) -> int:
    try:
        return generation_of(float(speed)) or 0
    except ValueError:
        return 0


def _plus(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\+", text) is not None


def _bits(text: str, names: dict[str, int]) -> int:
    """The bits whose names stand with a plus."""
    found: Iterable[str] = re.findall(r"(\w+)\+", text)
    return sum({1 << names[name] for name in found if name in names})


def first_number(pattern: str, text: str) -> int:
    """The number that the pattern's group finds, else 0."""
    found = re.search(pattern, text)
    return int(found[1]) if found and found[1] else 0
