"""The import ladder and the house rules that an abstract syntax tree can see."""

import ast
from functools import cache
from pathlib import Path

import pytest

import harness

ROOT = Path(harness.__file__).parent
GROUND = {
    "errors", "clock", "units", "limits", "measurement", "part", "secret", "config", "platform", "bench", "consent", "ports",
    "locator", "toml", "files", "waivers", "versions",
}  # fmt: skip
MAY_IMPORT = {
    "ground": {"ground"},
    "live": {"ground"},
    "tape": {"ground", "tape"},
    "devices": {"ground", "devices", "agent"},
    "procedures": {"ground", "devices", "procedures"},
    "record": {"ground", "record"},
    "report": {"ground", "record", "report"},
    "lab": {"ground", "lab", "agent"},
    "agent": {"agent"},
    "plugin": {"ground", "live", "tape", "devices", "procedures", "record", "report", "lab", "plugin"},
    "cli": {"ground", "live", "tape", "devices", "procedures", "record", "report", "lab", "plugin", "cli"},
}
ONE_IMPORTER = {
    "redfish": "live", "requests": "live", "serial": "live", "pynvml": "agent",
    "cuda": "agent", "pytest": "plugin", "junit_xml": "report",
    "jinja2": "report",
    "torch": "agent", "tensorflow": "agent",
    "typer": "cli", "cheroot": "lab", "cryptography": "lab",
}  # fmt: skip
MODULES = sorted(file for file in ROOT.rglob("*.py") if "_bundled" not in file.parts)


def layer(module: str) -> str:
    name = module.split(".")[1] if "." in module else ""
    return "ground" if name in GROUND or name == "" else "cli" if name == "__main__" else name


def dotted(file: Path) -> str:
    parts = ["harness", *file.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(file: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found += [f"{node.module}.{alias.name}" if node.module == "harness" else node.module for alias in node.names]
    return sorted(set(found))


def test_there_are_modules_to_look_at():
    assert len(MODULES) > 30


@pytest.mark.parametrize("file", MODULES, ids=dotted)
def test_imports_point_downwards_only(file):
    own = layer(dotted(file))
    wrong = [name for name in imports(file) if name.startswith("harness.") and layer(name) not in MAY_IMPORT[own] | {own}]
    assert not wrong, f"{dotted(file)} ({own}) imports {wrong}"


def test_each_vendor_library_has_one_importer():
    for library, owner in ONE_IMPORTER.items():
        importers = {dotted(file) for file in MODULES if any(name.split(".")[0] == library for name in imports(file))}
        assert {layer(name) for name in importers} <= {owner}, f"{library} is imported by {importers}"
        if library not in ("pytest", "typer"):
            assert len(importers) <= 1 or library in ("cryptography", "cheroot", "torch"), f"{library} is imported by {importers}"


def calls(file: Path) -> list[tuple[int, str]]:
    return [(node.lineno, ast.unparse(node.func)) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("file", MODULES, ids=dotted)
def test_time_is_taken_from_the_clock_only(file):
    if dotted(file) in ("harness.clock", "harness.agent.clock"):
        return
    taken = {"time.sleep", "time.time", "time.monotonic", "datetime.now", "datetime.datetime.now", "datetime.utcnow", "date.today"}
    assert not [(line, name) for line, name in calls(file) if name in taken]


@pytest.mark.parametrize("file", MODULES, ids=dotted)
def test_nothing_prints_but_the_command_line_and_the_agent(file):
    if layer(dotted(file)) in ("cli", "agent"):
        return
    assert not [line for line, name in calls(file) if name == "print"]


def test_suites_speak_no_transport_words():
    suites = ROOT.parent / "suites"
    files = sorted(suites.rglob("test_*.py"))
    assert files
    for file in files:
        wrong = [
            name for name in imports(file) if name.startswith(("harness.live", "harness.tape", "harness.ports", "harness.lab"))
        ]
        assert not wrong, f"{file} imports {wrong}"
