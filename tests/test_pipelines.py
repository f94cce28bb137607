"""The pipelines that the README shows run as written, in a repository that holds one check of its own."""

import os
import re
import shutil
import subprocess
import sys
import venv
from xml.etree import ElementTree

import pytest
import yaml

from harness import locator

README = locator.shipped() / "README.md"
CHECK = """
import pytest


@pytest.mark.check("own.tag")
def test_the_tag_is_told(contact, measure):
    measure("own.tag", contact.system.service_tag)
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not README.is_file(), reason="the README is not beside the installed package")]


def block(kind: str) -> str:
    (text,) = re.findall(rf"```{kind}\n(.*?)```", README.read_text(), re.DOTALL)
    return text


def gitlab() -> tuple[list[str], list[str], str]:
    """What the job runs, what it runs at its end, and where GitLab looks for JUnit."""
    job = yaml.safe_load(block("yaml"))["bringup"]
    assert job["artifacts"]["when"] == "always"
    return job["script"], job["after_script"], job["artifacts"]["reports"]["junit"]


def jenkins() -> tuple[list[str], list[str], str]:
    """The same of the Jenkinsfile."""
    steps, post = block("groovy").split("post {")
    (junit,) = re.findall(r"junit '(.*?)'", post)
    return re.findall(r"sh '(.*?)'", steps), re.findall(r"sh '(.*?)'", post), junit


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with the project in it. What ``pip`` would fetch is taken from here, so that the network may be away."""
    folder = tmp_path_factory.mktemp("repository")
    left_out = shutil.ignore_patterns(".git", "reports", "__pycache__", ".venv", ".*_cache")
    shutil.copytree(locator.shipped(), folder / "bringup-harness", ignore=left_out)
    (folder / "bringup-harness" / "reports").mkdir()
    (folder / "my_checks").mkdir()
    (folder / "my_checks" / "test_tag.py").write_text(CHECK)
    return folder


@pytest.mark.parametrize("pipeline", [gitlab, jenkins])
def test_a_pipeline_passes_and_leaves_junit_for_its_dashboard(repository, pipeline):
    script, afterwards, junit = pipeline()
    shutil.rmtree(repository / ".venv", ignore_errors=True)
    (repository / "junit.xml").unlink(missing_ok=True)
    here = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "BRINGUP", "PYTHON"))}
    for command in (*script, *afterwards):
        if command.startswith("python"):
            venv.create(repository / ".venv", with_pip=True, system_site_packages=True)
            borrow(repository)
            continue
        offline = command.replace("pip install", "pip install --no-build-isolation --no-deps --ignore-installed")
        done = subprocess.run(
            offline, shell=True, cwd=repository, env=here, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    suites = ElementTree.parse(repository / junit).getroot()
    names = [case.get("name") for case in suites.iter("testcase")]
    assert "own.tag" in " ".join(str(name) for name in names)
    assert suites.get("failures") == "0"


def borrow(repository):
    """Let the fresh environment see the libraries of this one."""
    (site,) = (repository / ".venv" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")) + "\n")
