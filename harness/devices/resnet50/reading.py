"""Running the worker ``resnet50`` and reading its report.

The worker ``resnet50 [--windows N] ...`` prints, one JSON object a line (schema 1):

    {"kind":"progress","stage":"start","done":1,"of":20}                        may stand before the hello line too
    {"kind":"hello","worker":"resnet50","schema":1,"framework":"tensorflow","precision":"fp16","compiler":"xla","batch":512,
     "data":"synthetic","driver":"535.183.01","versions":{"tensorflow":"1.15.5",...},"steps":10,"size":224,"device":"cuda"}
    {"kind":"gpu","index":0,"rank":0,"address":"0000:3f:00.0","uuid":"GPU-...","name":"..."}
    {"kind":"solo","index":0,"rate":1022.8,"hash":"...","first_loss":7.6,"loss":3.3,"bad_step":null}
    {"kind":"progress","stage":"windows","done":1,"of":12}
    {"kind":"window","number":1,"rate":19812.2,"loss":7.6}                      loss null: not finite
    {"kind":"rank","rank":0,"index":0,"hash":"...","bad_step":null}
    {"kind":"allreduce","ranks":20,"elements":1048576,"wrong":0,"wrong_ranks":[]}
    {"kind":"transport","backend":"nccl","p2p":18,"shm":2,"net":0}
    {"kind":"xid","index":12,"address":"0000:e1:00.0","xid":79}                 as it comes
    {"kind":"telemetry","index":0,"samples":900,"power":248.2,"temperature":68,"slowdown":88,"reasons":{"sw_power_cap":0.62}}
    {"kind":"link","index":0,"samples":900,"generation":3,"width":16,"replays":0,"seconds":180.0}     highest, lowest
    {"kind":"untried","why":"..."}                                              a part was left out
    {"kind":"error", ...} and {"kind":"end","lines":N} as everywhere

``framework`` is tensorflow, pytorch or mxnet; ``precision`` fp16, fp32, amp, bf16 or tf32; ``compiler`` xla, inductor or none. A
window begins and ends with all GPUs in step; warm-up and compilation come before the first. The solo runs are deterministic: like
GPUs with like software give one and the same hash.
"""

from __future__ import annotations

from harness.devices.fields import Fields, Lines, normal_address
from harness.devices.gpu import links_in, xids_in
from harness.devices.host import Host
from harness.devices.resnet50.facts import FULL_SIZE, AllReduce, Identity, Rank, RankGpu, Report, Solo, Telemetry, Transport, Window
from harness.errors import BenchError, DeviceError
from harness.ports import OnLine

SCHEMA = 1


def run_resnet50(host: Host, *options: str, windows: int = 12, timeout: float = 3600.0, on_line: OnLine | None = None) -> Report:
    """Train on every GPU alone and on all together, and report; it takes minutes, ``on_line`` gets every line as it comes.

    ``options`` are further arguments of the worker, such as ``--device cpu``. Raises BenchError where the worker lacks what it
    needs or a rank ended early, DeviceError where an Xid says why, CommandFailed where the worker broke, BringupError where its
    lines cannot be read.
    """
    objects = host.agent("resnet50", "--windows", str(windows), *options, timeout=timeout, on_line=on_line)
    lines = Lines.of("resnet50", objects, SCHEMA)
    xids = xids_in(lines)
    if lines.trouble and xids:
        seen = ", ".join(f"Xid {xid.number} on {xid.address or 'a GPU'}" for xid in xids)
        raise DeviceError(f"{lines.trouble}; the driver reported {seen}: look at that GPU, its power and its seat")
    if lines.trouble:
        raise BenchError(lines.trouble)
    allreduce, transport = lines.every("allreduce"), lines.every("transport")
    return Report(
        identity=_identity(lines.hello),
        gpus=tuple(_gpu(fields) for fields in lines.every("gpu")),
        solos=tuple(_solo(fields) for fields in lines.every("solo")),
        windows=tuple(_window(fields) for fields in lines.every("window")),
        ranks=tuple(_rank(fields) for fields in lines.every("rank")),
        allreduce=_allreduce(allreduce[-1]) if allreduce else None,
        transport=_transport(transport[-1]) if transport else None,
        telemetry=tuple(_telemetry(fields) for fields in lines.every("telemetry")),
        links=links_in(lines),
        xids=xids,
        untried="; ".join(fields.text("why") for fields in lines.every("untried")),
    )


def _identity(hello: Fields) -> Identity:
    return Identity(
        framework=hello.text("framework"),
        precision=hello.text("precision"),
        compiler=hello.text("compiler"),
        batch=hello.integer("batch"),
        data=hello.text("data", ""),
        driver=hello.text("driver", ""),
        versions={str(name): str(version) for name, version in hello.mapping("versions").items()},
        size=hello.integer("size", FULL_SIZE),
        device=hello.text("device", "cuda"),
    )


def _gpu(fields: Fields) -> RankGpu:
    address = normal_address(fields.text("address"))
    return RankGpu(fields.integer("index"), fields.integer("rank"), address, fields.text("uuid", ""))


def _solo(fields: Fields) -> Solo:
    return Solo(
        index=fields.integer("index"),
        rate=fields.maybe_number("rate"),
        hash=fields.text("hash", ""),
        loss=fields.maybe_finite("loss"),
        bad_step=fields.maybe_integer("bad_step"),
        first_loss=fields.maybe_finite("first_loss"),
    )


def _window(fields: Fields) -> Window:
    return Window(fields.integer("number"), fields.number("rate"), fields.maybe_finite("loss"))


def _rank(fields: Fields) -> Rank:
    return Rank(fields.integer("rank"), fields.integer("index"), fields.text("hash"), fields.maybe_integer("bad_step"))


def _allreduce(fields: Fields) -> AllReduce:
    counts = fields.integer("ranks"), fields.integer("elements"), fields.integer("wrong")
    return AllReduce(*counts, fields.integers("wrong_ranks"))


def _transport(fields: Fields) -> Transport:
    return Transport(fields.integer("p2p", 0), fields.integer("shm", 0), fields.integer("net", 0), fields.text("backend", "nccl"))


def _telemetry(fields: Fields) -> Telemetry:
    reasons = {str(name): float(share) for name, share in fields.mapping("reasons").items()}
    return Telemetry(
        index=fields.integer("index"),
        power=fields.maybe_number("power"),
        temperature=fields.maybe_integer("temperature"),
        reasons=reasons,
        slowdown=fields.maybe_integer("slowdown"),
        samples=fields.integer("samples", 0),
        is_told="reasons" in fields,
    )
