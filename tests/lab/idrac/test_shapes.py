from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.lab.idrac import messages, names

RECORDED = "idrac/NVIDIA__libredfish/R750_idrac9_7.10.30.00_bios_1.13.2_lockdown"
"""A public capture of an iDRAC9 7.10 (NVIDIA/libredfish tests/mockups/dell_multi_dpu)."""

OWN = {names.SYSTEM: {"PowerRestorePolicy", "PCIeDevices"}}
"""Properties of ours that the capture does not show: the first is DMTF's, the second may be empty there."""

SAME_PATH = (
    names.ROOT,
    names.SYSTEM,
    names.BIOS,
    names.SETTINGS,
    f"{names.BIOS}/BiosRegistry",
    names.MANAGER,
    names.LOG,
    f"{names.LOG}/Entries",
    names.DELL_JOBS,
    names.DMTF_JOBS,
    f"{names.ROOT}/JobService",
    f"{names.ROOT}/TaskService",
    names.TASKS,
    f"{names.ROOT}/SessionService",
    names.SESSIONS,
    f"{names.ATTRIBUTES}/iDRAC.Embedded.1",
    f"{names.ROOT}/UpdateService",
)


@pytest.fixture
def recorded() -> Callable[[str], Any]:
    root = os.environ.get("BRINGUP_FIELD_DATA")
    if not root:
        pytest.skip("BRINGUP_FIELD_DATA is not set")

    def read(path: str) -> Any:
        return json.loads((Path(root) / RECORDED / path.strip("/") / "index.json").read_text())

    return read


def kinds(body: Any) -> dict[str, type]:
    return {key: type(value) for key, value in body.items() if value is not None}


@pytest.mark.parametrize("path", SAME_PATH)
def test_every_property_is_one_that_a_recorded_idrac_has_and_of_its_type(
    client: Any, recorded: Callable[[str], Any], path: str
) -> None:
    mine, theirs = client.get(path), recorded(path)
    assert set(mine) - set(theirs) - OWN.get(path, set()) <= {"Members@odata.nextLink"}
    for key, kind in kinds(mine).items():
        if key in kinds(theirs):
            assert kinds(theirs)[key] is kind, key


@pytest.mark.parametrize("collection", [names.DELL_JOBS, names.DMTF_JOBS])
def test_a_finished_job_has_the_properties_of_a_recorded_one(
    open_client: Callable[..., Any], recorded: Callable[[str], Any], collection: str
) -> None:
    client = open_client("bios.job-result")
    client.patch({"MemTest": "Enabled"})
    job = client.job_id()
    client.reset()
    client.wait(3000)
    client.log_in()
    mine, theirs = client.get(f"{collection}/{job}"), recorded(f"{collection}/JID_229700026199")
    assert set(theirs) - set(mine) <= {"@odata.context", "Description"}
    assert set(mine) <= set(theirs)
    same = {"JobState", "JobStatus", "JobType", "PercentComplete", "MessageId", "Name"} & set(theirs)
    assert {key: mine[key] for key in same} == {key: theirs[key] for key in same}


def test_a_log_entry_has_the_properties_of_a_recorded_one(client: Any, recorded: Callable[[str], Any]) -> None:
    mine = client.get(f"{names.LOG}/Entries")["Members"][0]
    theirs = recorded(f"{names.LOG}/Entries/179307")
    assert mine["MessageId"].rpartition(".")[2] == theirs["MessageId"].rpartition(".")[2] == "USR0030"
    assert set(mine) <= set(theirs)
    assert set(theirs) - set(mine) <= {"@odata.context", "Description"}


def test_every_message_has_the_severity_that_dells_registry_gives_it(recorded: Callable[[str], Any]) -> None:
    theirs = recorded(f"{names.ROOT}/Registries/Messages/EEMIRegistry")["Messages"]
    wrong = {name: theirs[name]["Severity"] for name in messages.MESSAGES if messages.severity(name) != theirs[name]["Severity"]}
    assert wrong == {}
    copied = [name for name in messages.MESSAGES if messages.text(name) == theirs[name]["Message"]]
    assert copied == []
