"""The JUnit file of real runs: valid, and with the same cases whether the machine is healthy or on fire."""

import subprocess
import sys
from pathlib import Path

import pytest

etree = pytest.importorskip("lxml.etree", reason="pip install 'bringup-harness[test]'")
SCHEMA = Path(__file__).parents[1] / "report" / "junit-10.xsd"


def names(folder):
    document = etree.parse(str(folder / "junit.xml"))
    schema = etree.XMLSchema(etree.parse(str(SCHEMA)))
    schema.assertValid(document)
    return sorted((case.get("classname"), case.get("name")) for case in document.iter("testcase")), document


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    subprocess.run([sys.executable, "-m", "harness", "run"], cwd=folder, capture_output=True, timeout=300, check=True)
    return names(folder / "reports" / "latest")


@pytest.mark.parametrize(
    "fault",
    [
        "bmc.auth",
        "pcie.uplink",
        *(
            pytest.param(fault, marks=pytest.mark.slow)
            for fault in ("bios.job-state", "boot.post-halt", "gpu.nvml", "resnet50.nan")
        ),
    ],
)
def test_a_machine_on_fire_has_the_cases_of_a_healthy_one(bringup, healthy, fault):
    done = bringup("run", "--bench", "model-lqd8360", "--live", "--fault", fault)
    assert done.status in (1, 3), done.out
    listed, document = names(done.run_folder)
    assert listed == healthy[0]
    assert len(set(listed)) == len(listed)
    types = {element.get("type") for element in document.iter("failure", "error")}
    assert types <= {"product", "bench"}
    assert types
    for skipped in document.iter("skipped"):
        assert skipped.get("message")
        assert skipped.text
    (verdict,) = [case for case in document.iter("testcase") if case.get("name") == "verdict"]
    assert verdict.find("failure") is not None or verdict.find("error") is not None


def test_a_healthy_run_has_no_failure_and_one_output_a_case(healthy):
    _, document = healthy
    assert not list(document.iter("failure", "error", "skipped"))
    for case in document.iter("testcase"):
        assert len(case.findall("system-out")) <= 1
    text = "".join(case.findtext("system-out") or "" for case in document.iter("testcase"))
    assert "pcie.width" in text
    assert "[16 lanes]" in text
