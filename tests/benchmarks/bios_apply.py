"""What changing two BIOS settings costs: requests and wall time, by the harness and by sushy, on the same served simulator.

    python tests/benchmarks/bios_apply.py

The machine is the model behind real TLS, moved by one virtual clock that both clients sleep on, so that waiting costs no wall time:
what is measured is requests and work (sushy opens a connection for each request). ``beyond`` are the requests that are no polling
of the job, of POST, or (sushy) of the pending values. sushy makes the change as its own documentation does: set_attributes with
OnReset, reset_system, then looking until nothing is pending and the values show. Nothing else is checked then: no service tag, no
jobs or values of others, no job's end, no new boot. Figures are of the machine at hand.
"""

import json
import sys
import time
import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from harness.clock import VirtualClock
from harness.consent import Consent
from harness.devices.idrac import Idrac
from harness.devices.jobs import Phase
from harness.devices.redfish import Redfish
from harness.lab.idrac.application import IdracApplication
from harness.lab.idrac.serve import serve
from harness.lab.model import parts
from harness.lab.model.machine import Machine
from harness.live.http import RedfishHttp
from harness.platform import load_platform
from harness.procedures.bios.change import change_bios
from harness.procedures.guard import GuardedBmc
from harness.procedures.handover import Handover
from harness.secret import GivenSecret

PLATFORM = Path(__file__).parents[2] / "fixtures" / "platforms" / "lqd8360.toml"
WANTED = {"MmioAbove4Gb": "Enabled", "OsWatchdogTimer": "Disabled"}
POLLS = ("/Jobs/JID_", "GetRemoteServicesAPIStatus")
EVERY = 15.0


@dataclass
class Counting(IdracApplication):
    """The application; it keeps method, path and time of every request."""

    machine: Machine
    asked: list[tuple[str, str, float]] = field(default_factory=list)

    def __post_init__(self):
        super().__init__(self.machine)

    def handle(self, method, path, headers, body, *, client="local"):
        self.asked.append((method, path, self.machine.now))
        return super().handle(method, path, headers, body, client=client)


def summary(application, machine, took, noticed, polls):
    (job,) = [job for job in machine.controller.jobs.jobs if job.type == "BIOSConfiguration"]
    current = machine.controller.bios.current
    assert {name: current[name] for name in WANTED} == WANTED
    beyond = [entry for before, entry in pairwise(((), *application.asked)) if not polls(before, entry)]
    return {
        "requests": len(application.asked),
        "beyond": len(beyond),
        "writes": sum(method == "PATCH" or "ComputerSystem.Reset" in path for method, path, _ in beyond),
        "wall_ms": round(took * 1000, 1),
        "noticed_after_s": round(noticed - job.ended_at, 3),
        "sessions_left": len(machine.controller.sessions.open),
    }


def is_poll(before, entry):
    """A look at the job or at the host, whose state stands in two resources that are read one after the other."""
    follows_status = bool(before) and before[1].endswith("GetRemoteServicesAPIStatus")
    return any(poll in entry[1] for poll in POLLS) or (follows_status and entry[1].endswith("/System.Embedded.1"))


def by_harness():
    clock = VirtualClock()
    machine = Machine(clock)
    application = Counting(machine)
    platform = load_platform(PLATFORM.read_text(), PLATFORM.name)
    with serve(application) as served:
        lane = RedfishHttp(served.url, parts.BMC_USER, GivenSecret(parts.BMC_PASSWORD), clock, pin=served.pin)
        began = time.perf_counter()
        consent = Consent(apply=True)
        guarded = GuardedBmc(lane, consent, parts.SERVICE_TAG, lambda _: None, lambda: None)
        idrac = Idrac(Redfish(guarded, clock))
        changed = change_bios(idrac, platform, consent, Handover(), expected_tag=parts.SERVICE_TAG)
        lane.close()
        took = time.perf_counter() - began
    assert changed.story.stop is None, changed.story.stopped
    noticed = changed.story.first_in(Phase.SUCCEEDED)
    return summary(application, machine, took, noticed, is_poll)


def by_sushy():
    import sushy
    import urllib3
    from sushy import auth

    urllib3.disable_warnings()
    clock = VirtualClock()
    machine = Machine(clock)
    application = Counting(machine)
    with serve(application) as served:
        began = time.perf_counter()
        login = auth.SessionAuth(parts.BMC_USER, parts.BMC_PASSWORD)
        root = sushy.Sushy(served.url, verify=False, auth=login)
        system = root.get_system("/redfish/v1/Systems/System.Embedded.1")
        bios = system.bios
        bios.set_attributes(WANTED, apply_time=sushy.APPLY_TIME_ON_RESET)
        system.reset_system(sushy.RESET_TYPE_FORCE_RESTART)
        start = len(application.asked)
        while True:
            clock.sleep(EVERY)
            bios.invalidate()
            bios.refresh(force=True)
            if not bios.pending_attributes and all(bios.attributes[name] == value for name, value in WANTED.items()):
                break
            assert clock.now() < 7200
        noticed = clock.now()
        polled = set(map(id, application.asked[start:]))
        login.close()
        took = time.perf_counter() - began
    return summary(application, machine, took, noticed, lambda _, entry: id(entry) in polled)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    figures = {"harness": by_harness()}
    if "--without-sushy" not in sys.argv:
        figures["sushy"] = by_sushy()
    for client, row in figures.items():
        print(f"{client:8} " + "  ".join(f"{name} {value}" for name, value in row.items()))
    print(json.dumps(figures))
