"""Records of one machine with twenty slots, written by the real ledger: healthy, on fire, interrupted, killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.limits import Outcome, at_least, exactly
from harness.measurement import Measurement
from harness.part import Part
from harness.record.ledger import Ledger
from harness.record.reader import read_record

STAGES = ("bmc", "bios", "boot", "pcie", "gpu", "p2p", "resnet50")
SLOTS = tuple(f"{chassis}/slot{number:02d}" for chassis in ("jbogA", "jbogB") for number in range(1, 11))
MACHINE_CHECKS = ("bmc.identity", "bios.readback", "boot.new-boot", "pcie.count", "resnet50.total")
SLOT_CHECKS = ("pcie.width", "gpu.ecc", "p2p.write")
CHECKS = sorted((*MACHINE_CHECKS, *SLOT_CHECKS), key=lambda check: STAGES.index(check.partition(".")[0]))
CASES = [(check, slot) for check in CHECKS for slot in (SLOTS if check in SLOT_CHECKS else (None,))]


@dataclass
class Story:
    """What differs from a healthy replay of the model; ``outcomes`` is by check or case id: (outcome, blame, message)."""

    run: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, str] | None = None
    outcomes: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    values: dict[str, float | None] = field(default_factory=dict)
    information: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    attachments: tuple[str, ...] = ()
    stops_after: str = ""
    plan: bool = True
    end: tuple[str, str, int] | None = ("PASSED", "", 0)
    handover: str = "Nothing was left on the machine."


def _case_id(check: str, slot: str | None) -> str:
    return f"{check}[{slot}]" if slot else check


def _tell(ledger: Ledger, story: Story) -> None:
    ledger.write(
        "run",
        **{
            "schema": 1,
            "id": "20261130-120000-model",
            "started": "2026-11-30T12:00:00+00:00",
            "mode": "replay",
            "source": "model",
            "bench": "model-lqd8360",
            "platform": "lqd8360",
            "stages": list(STAGES),
            "harness": "0.1.0",
            "tape": {"name": "model-lqd8360", "recorded_at": "2026-11-01T08:00:00+00:00"},
            "faults": [],
            "apply": True,
            "command": ["bringup", "run"],
            **story.run,
        },
    )
    facts = {"service_tag": "MODEL01", "system": "PowerEdge R640", "bios": "2.12.2", "idrac": "5.10.30.00"}
    ledger.write("identity", facts=facts if story.facts is None else story.facts)
    if story.plan:
        planned = [
            {
                "case": _case_id(check, slot),
                "check": check,
                "stage": check.partition(".")[0],
                "slot": slot,
                "title": f"Check {check}.",
            }
            for check, slot in CASES
        ]
        ledger.write("plan", cases=planned)
    now = 0.0
    for stage in story.not_run:
        ledger.write("stage", stage=stage, state="not run", reason="NOT RUN: the platform has no [gpu] table")
    for stage in STAGES:
        if stage in story.not_run:
            continue
        ledger.write("stage", stage=stage, state="started", at=now)
        for check, slot in CASES:
            if check.partition(".")[0] != stage:
                continue
            now += 1.25
            case = _case_id(check, slot)
            _tell_case(ledger, story, check, slot, now)
            if case == story.stops_after:
                if story.end:
                    ledger.write("end", verdict=story.end[0], blame=story.end[1], exit=story.end[2], at=now)
                return
        gate = "degraded" if story.lost and stage == "pcie" else "open"
        ledger.write("stage", stage=stage, state="ended", gate=gate, lost=story.lost if stage == "pcie" else (), at=now)
    ledger.write("handover", text=story.handover)
    if story.end:
        ledger.write("end", verdict=story.end[0], blame=story.end[1], exit=story.end[2], at=now)


def _tell_case(ledger: Ledger, story: Story, check: str, slot: str | None, now: float) -> None:
    case = _case_id(check, slot)
    if check == "pcie.width":
        part = Part(str(slot), "Quadro RTX 8000", f"99900000{SLOTS.index(str(slot)) + 1:05d}")
        width = story.values.get(case, 16)
        ledger.measurement(Measurement("pcie.width", width, "lanes", exactly(16, "lanes"), part, now), case=case, check=check)
    if check == "p2p.write":
        for peer in SLOTS:
            rate = Measurement(
                f"p2p.write.{peer}", story.values.get(case, 12.8), "GB/s", at_least(11, "GB/s", marginal=12), Part(str(slot)), now
            )
            ledger.measurement(rate, case=case, check=check)
    outcome, blame, message = story.outcomes.get(case, story.outcomes.get(check, ("passed", "", "")))
    ledger.write(
        "case",
        case=case,
        check=check,
        stage=check.partition(".")[0],
        slot=slot,
        title=f"Check {check}.",
        outcome=outcome,
        blame=blame,
        message=message,
        information=check.partition(".")[0] in story.information,
        took=1.25,
        at=now,
        attachments=story.attachments,
    )


@pytest.fixture
def tell(tmp_path: Path) -> Callable[..., Any]:
    """Write the record of a story into a folder of its own and read it back."""
    count = iter(range(1000))

    def write(**changes: Any) -> Any:
        ledger = Ledger(tmp_path / f"run{next(count)}" / "results.jsonl", str)
        _tell(ledger, Story(**changes))
        ledger.close()
        return read_record(ledger.path)

    return write


@pytest.fixture
def healthy(tell: Callable[..., Any]) -> Any:
    """Everything passed."""
    return tell()


FIRE = {
    "pcie.count": (
        "failed",
        "product",
        "18 of 20 GPUs are there\n  chassis jbogB: 10 -> 8\n  first link that lost them: downstream port 07",
    ),
    "pcie.width[jbogA/slot03]": ("failed", "product", "jbogA/slot03 pcie.width = 8 lanes  [16 lanes]  FAIL"),
    "pcie.width[jbogB/slot07]": ("blocked", "", "BLOCKED by pcie.count"),
    "gpu.ecc[jbogA/slot05]": ("not measured", "", "NVML says not supported"),
    "gpu.ecc[jbogB/slot07]": ("blocked", "", "BLOCKED by pcie.count"),
    "gpu.ecc[jbogB/slot01]": ("not applicable", "", "ECC is off"),
    "p2p.write[jbogB/slot07]": ("blocked", "", "BLOCKED by pcie.count"),
    "p2p.write[jbogA/slot09]": ("failed", "bench", "nothing answers at 10.0.0.1"),
    "resnet50.total": ("error", "harness", "KeyError: 'total'"),
}


@pytest.fixture
def on_fire(tell: Callable[..., Any]) -> Any:
    """Product, bench and harness failed, a part is lost, one limit is violated and one value marginal."""
    return tell(
        run={"mode": "live", "source": "hardware", "tape": None, "bench": "r640-07"},
        facts={"service_tag": "ABC1234", "system": "PowerEdge R640", "bios": "2.12.2", "idrac": "5.10.30.00"},
        outcomes=FIRE,
        values={"pcie.width[jbogA/slot03]": 8, "p2p.write[jbogB/slot02]": 11.5, "p2p.write[jbogB/slot09]": None},
        information=frozenset({"gpu", "p2p", "resnet50"}),
        lost=("jbogB/slot07",),
        attachments=("evidence/console.log", "evidence/lspci.txt"),
        end=("HARNESS ERROR", "harness", 4),
        handover="JID_123 Scheduled: applies at the next reboot by anyone; undo: bringup ...",
    )


@pytest.fixture
def interrupted(tell: Callable[..., Any]) -> Any:
    """Ctrl-C in the middle of pcie."""
    return tell(stops_after="pcie.width[jbogA/slot04]", end=("INTERRUPTED", "", 130))


@pytest.fixture
def killed(tell: Callable[..., Any]) -> Any:
    """SIGKILL in the middle of a line."""
    record = tell(stops_after="pcie.width[jbogA/slot04]", end=None)
    with record.path.open("ab") as file:
        file.write(b'{"seq":99,"kind":"measurement","case":"pcie.wid')
    return read_record(record.path)


HOSTILE = (
    "<script>alert(1)</script>",
    "]]> <![CDATA[ & &amp; \"'",
    "\x00\x01\x1b[31mred\x1b[0m\x7f\x85",
    "half \ud800 pair and \ufffe",
    "x [[ATTACHMENT|/etc/passwd]]",
    "[bold]markup[/bold] [/] :smile:",
    "\u202eright to left\u2028next line",
    "\n[[ATTACHMENT|/etc/shadow]]\n",
    "{{ 7 * 7 }} {% raw %}",
    "x" * 300_000,
    "é" * 100_000,
)


@pytest.fixture(params=range(len(HOSTILE)), ids=lambda at: f"hostile{at}")
def hostile(request: Any, tell: Callable[..., Any]) -> Any:
    """A record in which every text that comes from outside is one hostile string."""
    text = HOSTILE[request.param]
    record = tell(
        facts={"service_tag": text, "system": text, "bios": text, "idrac": text, text[:50]: text},
        outcomes={
            "bmc.identity": ("failed", "product", text),
            "bios.readback": ("not measured", "", text),
            "boot.new-boot": ("blocked", "", text),
            "pcie.count": ("failed", "bench", text),
        },
        run={"faults": [text[:500]], "bench": text[:500], "command": [text]},
        attachments=(text[:500],),
        end=("BROKEN", "bench", 3),
        handover=text,
    )
    measured = Measurement(text[:1000], text, "", exactly("y"), Part(text[:100], serial=text), 1.0, text)
    part = record.measurements[0]
    loud = [replace(part, name=measured.name, value=measured.value, limit=str(measured.limit), part=measured.part, note=text)]
    failed = [replace(one, outcome=Outcome.FAIL, case="pcie.count") for one in loud]
    return replace(record, measurements=(*record.measurements, *failed), notes=(text,), damage=())
