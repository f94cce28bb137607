"""DMTF's validators find nothing at the simulated iDRAC but what is listed, with its source, in exceptions.toml."""

from __future__ import annotations

import csv
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from harness.lab.idrac.profile import DEFAULT, PROFILES

TOOLS = Path(sys.executable).parent
LISTED = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
pytestmark = [pytest.mark.socket, pytest.mark.slow]


@pytest.mark.skipif(not (TOOLS / "rf_service_validator").exists(), reason="redfish_service_validator is not installed")
@pytest.mark.parametrize("profile", [pytest.param(profile, id=profile.name) for profile in PROFILES])
def test_every_resource_fits_its_schema(serve_idrac, tmp_path, profile):
    root = os.environ.get("BRINGUP_FIELD_DATA")
    if not root or not (Path(root) / "redfish-csdl").is_dir():
        pytest.skip("BRINGUP_FIELD_DATA has no redfish-csdl")
    schemas = ("--schema_directory", str(Path(root) / "redfish-csdl"), "--skipschema")
    done = serve_idrac(profile, speed=1.0).run("rf_service_validator", *schemas, "--logdir", str(tmp_path / "log"))
    (log,) = (tmp_path / "log").rglob("*.log")
    found = re.findall(r"FAIL - (.*)", log.read_text())
    assert "Validating /redfish/v1/Systems/System.Embedded.1/Bios..." in done.stdout
    assert [line for line in found if not any(name in line for name in LISTED["service"])] == []


@pytest.mark.skipif(not (TOOLS / "rf_protocol_validator").exists(), reason="redfish_protocol_validator is not installed")
def test_the_protocol_is_kept(serve_idrac, tmp_path):
    bmc = serve_idrac(DEFAULT, speed=1.0)
    bmc.machine.controller.sessions.blocks_addresses = False  # the validator tries wrong passwords by the dozen
    report = tmp_path / "report"
    bmc.run("rf_protocol_validator", "--no-cert-check", "--report-dir", str(report), "--report-type", "tsv")
    (table,) = report.glob("*.tsv")
    with table.open() as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    assert sum("PASS" in row for row in rows) > 150
    failed = {row[0] for row in rows if "FAIL" in row}
    assert failed - set(LISTED["protocol"]) - set(LISTED["not_simulated"]) == set()


def test_every_exception_has_a_reason():
    assert all(reason for table in LISTED.values() for reason in table.values())
