"""The host's rows of the power table on a real firmware and a real kernel: each is gone once and its proof is there."""

from __future__ import annotations

import pytest

from harness.devices.idrac import Idrac
from harness.devices.redfish import Redfish
from harness.errors import BenchError
from harness.lab.model import parts
from harness.procedures.power import TABLE, Way
from harness.procedures.power_proof import carry_out

pytestmark = [pytest.mark.qemu, pytest.mark.socket]


def test_every_way_of_the_host_is_proven_one_after_the_other(open_bench):
    with open_bench() as bench:
        idrac = Idrac(Redfish(bench.bmc, bench.clock))
        tag = idrac.system().service_tag
        assert tag != parts.SERVICE_TAG
        processes, gone = set(), []
        for way in (Way.ON, Way.WARM, Way.COLD, Way.GRACEFUL_OFF, Way.ON, Way.FORCED_OFF):
            with pytest.raises(BenchError, match="nothing was sent"):
                carry_out(idrac, Way.FORCED_OFF if TABLE[way].state == "Off" else Way.ON, expected_tag=tag)
            done = carry_out(idrac, way, expected_tag=tag)
            gone.append((way, done.power, bench.machine.pid is not None))
            if way in (Way.WARM, Way.COLD):
                bench.follow("OSRunning")
            processes.add(bench.machine.pid)
        assert gone == [
            (Way.ON, "On", True),
            (Way.WARM, "On", True),
            (Way.COLD, "On", True),
            (Way.GRACEFUL_OFF, "Off", False),
            (Way.ON, "On", True),
            (Way.FORCED_OFF, "Off", False),
        ]
        assert len(processes - {None}) == 4, "four starts of the machine are four processes"
