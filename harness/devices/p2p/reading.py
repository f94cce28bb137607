"""Running the worker ``p2p`` and reading its report.

The worker ``p2p [--loops N] [--force]`` (more options for work by hand: ``--help``) prints, one JSON object a line (schema 1):

    {"kind":"hello","worker":"p2p","schema":1,"seed":20,"size":B,"loops":25,"driver":"535.183.01","cuda":"12.2"}
    {"kind":"gpu","index":0,"address":"0000:3f:00.0","uuid":"GPU-...","group":"0000:3d:00.0","iommu":"none","peers":8,"stopped":0}
      lost            "error":"CUDA cannot open GPU 0: CUDA_ERROR_UNKNOWN (999)"
    {"kind":"acs","address":"0000:3e:00.0","redirects":["RR","CR"],"gpus":[0]}
    {"kind":"holder","index":0,"pid":2117,"name":"Xorg"}
    {"kind":"refused","why":"...","gpus":[0,1]}                        instead of all that follows
    {"kind":"loopback","index":0,"checked":B,"bad":0,"rate":300.1}               within the GPU's own memory; or "untried":"why"
    {"kind":"schedule","steps":100,"of":380}
    {"kind":"progress","stage":"pairs","done":20,"of":380}
    {"kind":"pair","from":0,"to":1,"can":true,"link":"pcie","enabled":12.6,"pulled":12.5,"disabled":9.9,
     "both":25.1,"write_us":1.8,"read_us":2.4,"checked":B,"bad":0}
      with wrong bytes      "wrong":{"class":"dropped","way":"write","first":0,"last":B,"size":B,"disabled_bad":0,"of":INDEX}
      measured again        "alone":{"enabled":12.6,"disabled":9.9,"bad":0}
      failed                "error":"CUDA_ERROR_...","error_code":719
      not copied            "untried":"why"
    {"kind":"xid","index":12,"address":"0000:e1:00.0","xid":79,"text":"NVRM: Xid ..."}
    {"kind":"wedged","from":1,"to":12,"seconds":30.0,"culprit":12,"reaped":true}
    {"kind":"telemetry","index":0,"samples":1300,"power":81.0,"temperature":44,"slowdown":88,
     "reasons":[[4,12]]}                                                        peaks; samples by bit
    {"kind":"link","index":0,"generation":3,"width":16,"samples":1300,"replays":0,"seconds":260.0}
    {"kind":"contention","group":"0000:3d:00.0","gpus":[0,1,2,3],"partners":[10,11,12,13],"write_alone":10.0,
     "write_together":9.7,"read_alone":9.5,"read_together":9.3}                 or "untried":"why" instead of the rates
    {"kind":"shift","by":1,"group":"0000:3d:00.0","copies":1,"write":10.2,"read":10.1}
    {"kind":"contexts","count":20,"seconds":6.1,"life":"gpu","estimates":{"pair":710.0,"round":331.0,"gpu":103.0}}
    {"kind":"error", ...} and {"kind":"end","lines":N} as everywhere

``from`` is where the data is before the copy. Every pair has its own pattern, made from both UUIDs and the offset, so that data
of another pair, or of another place, is recognised; each GPU fills and compares its own memory, never through the mapping.
Peer access is enabled for one pair at a time and given back. A wedged pair's line says ``untried``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from harness.devices.fields import Fields, Lines, normal_address
from harness.devices.gpu import Telemetry, links_in, xids_in
from harness.devices.host import Host
from harness.devices.p2p.facts import (
    Alone,
    Contention,
    Contexts,
    Damage,
    Holder,
    LinkKind,
    Loopback,
    Pair,
    PeerGpu,
    Redirect,
    Report,
    Shift,
    Wedged,
    Wrong,
)
from harness.errors import BenchError, BringupError
from harness.ports import OnLine

SCHEMA = 1

Word = TypeVar("Word", bound=StrEnum)


def run_p2p(host: Host, *, loops: int = 25, force: bool = False, timeout: float = 3600.0, on_line: OnLine | None = None) -> Report:
    """Copy between all ordered pairs and report; it takes minutes, and ``on_line`` gets every line as it comes.

    ``force`` copies although an IOMMU translates, which can corrupt other devices' memory. Raises BenchError where the
    worker lacks what it needs, CommandFailed where it broke, BringupError where its lines cannot be read.
    """
    options = ["--loops", str(loops), *(["--force"] if force else [])]
    lines = Lines.of("p2p", host.agent("p2p", *options, timeout=timeout, on_line=on_line), SCHEMA)
    if lines.trouble:
        raise BenchError(lines.trouble)
    hello = lines.hello
    return Report(
        gpus=tuple(_gpu(fields) for fields in lines.every("gpu")),
        pairs=tuple(_pair(fields) for fields in lines.every("pair")),
        links=links_in(lines),
        telemetry=tuple(_telemetry(fields) for fields in lines.every("telemetry")),
        loopbacks=tuple(_loopback(fields) for fields in lines.every("loopback")),
        shifts=tuple(_shift(fields) for fields in lines.every("shift")),
        contexts=next((_contexts(fields) for fields in lines.every("contexts")), None),
        contention=tuple(_contention(fields) for fields in lines.every("contention")),
        redirects=tuple(_redirect(fields) for fields in lines.every("acs")),
        holders=tuple(_holder(fields) for fields in lines.every("holder")),
        wedged=tuple(_wedged(fields) for fields in lines.every("wedged")),
        xids=xids_in(lines),
        refused="; ".join(fields.text("why") for fields in lines.every("refused")),
        driver=hello.text("driver", ""),
        cuda=hello.text("cuda", ""),
        size=hello.integer("size", 0),
        loops=hello.integer("loops", 0),
        steps=sum(fields.integer("steps") for fields in lines.every("schedule")),
    )


def _gpu(fields: Fields) -> PeerGpu:
    return PeerGpu(
        index=fields.integer("index"),
        address=normal_address(fields.text("address")),
        uuid=fields.text("uuid", ""),
        group=fields.text("group", ""),
        iommu=fields.text("iommu", ""),
        peers=fields.maybe_integer("peers"),
        stopped=fields.integer("stopped", 0),
        error=fields.text("error", ""),
    )


def _pair(fields: Fields) -> Pair:
    wrong, alone = fields.inner("wrong"), fields.inner("alone")
    return Pair(
        source=fields.integer("from"),
        target=fields.integer("to"),
        can=fields.maybe_flag("can"),
        link=_word(LinkKind, fields, "link", LinkKind.PCIE),
        enabled=fields.maybe_number("enabled"),
        pulled=fields.maybe_number("pulled"),
        both=fields.maybe_number("both"),
        disabled=fields.maybe_number("disabled"),
        write_us=fields.maybe_number("write_us"),
        read_us=fields.maybe_number("read_us"),
        checked=fields.integer("checked", 0),
        bad=fields.maybe_integer("bad"),
        wrong=None if wrong is None else _wrong(wrong),
        alone=None if alone is None else _alone(alone),
        error=fields.text("error", ""),
        error_code=fields.integer("error_code", 0),
        untried=fields.text("untried", ""),
    )


def _wrong(fields: Fields) -> Wrong:
    return Wrong(
        damage=_word(Damage, fields, "class", Damage.OTHER),
        way=fields.text("way", "write"),
        first=fields.integer("first"),
        last=fields.integer("last"),
        size=fields.integer("size"),
        disabled_bad=fields.maybe_integer("disabled_bad"),
        of=fields.maybe_integer("of"),
    )


def _alone(fields: Fields) -> Alone:
    return Alone(fields.maybe_number("enabled"), fields.maybe_number("disabled"), fields.maybe_integer("bad"))


def _telemetry(fields: Fields) -> Telemetry:
    return Telemetry(
        index=fields.integer("index"),
        samples=fields.integer("samples", 0),
        power=fields.maybe_number("power"),
        temperature=fields.maybe_integer("temperature"),
        slowdown=fields.maybe_integer("slowdown"),
        reasons={int(bit): int(count) for bit, count in fields.sequence("reasons")} if "reasons" in fields else None,
    )


def _loopback(fields: Fields) -> Loopback:
    wrong = fields.inner("wrong")
    return Loopback(
        index=fields.integer("index"),
        rate=fields.maybe_number("rate"),
        checked=fields.integer("checked", 0),
        bad=fields.maybe_integer("bad"),
        wrong=None if wrong is None else _wrong(wrong),
        untried=fields.text("untried", ""),
    )


def _shift(fields: Fields) -> Shift:
    return Shift(
        by=fields.integer("by"),
        group=fields.text("group", ""),
        copies=fields.integer("copies"),
        write=fields.maybe_number("write"),
        read=fields.maybe_number("read"),
    )


def _contexts(fields: Fields) -> Contexts:
    return Contexts(fields.integer("count", 0), fields.number("seconds", 0.0), fields.text("life", ""))


def _contention(fields: Fields) -> Contention:
    return Contention(
        group=fields.text("group", ""),
        gpus=fields.integers("gpus"),
        partners=fields.integers("partners"),
        write_alone=fields.maybe_number("write_alone"),
        write_together=fields.maybe_number("write_together"),
        read_alone=fields.maybe_number("read_alone"),
        read_together=fields.maybe_number("read_together"),
        untried=fields.text("untried", ""),
    )


def _redirect(fields: Fields) -> Redirect:
    return Redirect(normal_address(fields.text("address")), tuple(map(str, fields.sequence("redirects"))), fields.integers("gpus"))


def _holder(fields: Fields) -> Holder:
    return Holder(fields.integer("index"), fields.integer("pid"), fields.text("name", "a process"))


def _wedged(fields: Fields) -> Wedged:
    return Wedged(
        source=fields.integer("from"),
        target=fields.integer("to"),
        seconds=fields.number("seconds"),
        culprit=fields.maybe_integer("culprit"),
        reaped=fields.flag("reaped", default=True),
    )


def _word(kind: type[Word], fields: Fields, name: str, default: Word) -> Word:
    """One of a closed set of words. Raises BringupError for another: a class nobody knows cannot be explained."""
    text = fields.text(name, default.value)
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(word.value for word in kind)
        raise BringupError(f"{fields.where}: {name} is {text!r}, not one of {known}") from None
