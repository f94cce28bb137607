"""Where suites and fixtures are: in the working folder, in the user's configuration, or with the package.

    ./fixtures                              what this project brings along
    $XDG_CONFIG_HOME/bringup (~/.config)    what this person keeps
    the clone, or harness/_bundled          what the package ships

Each of them holds ``benches/*.toml``, ``platforms/*.toml`` and ``tapes/<bench>/``. Writing goes to ``./fixtures`` or where the
command line says, never to the package.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from harness.bench import Bench, load_bench
from harness.errors import ConfigError, UsageMistake
from harness.files import read_plain
from harness.platform import Platform, load_platform

_PACKAGE = Path(__file__).resolve().parent


def shipped() -> Path:
    """The folder that holds the shipped ``suites`` and ``fixtures``: the clone's root, else the package's own copy."""
    clone = _PACKAGE.parent
    if (clone / "pyproject.toml").is_file() and (clone / "suites" / "pytest.toml").is_file():
        return clone
    return _PACKAGE / "_bundled"


def packaged() -> Path:
    """The folder of what came with an installed package; nothing is ever written there. In a clone there is no such folder."""
    return _PACKAGE / "_bundled"


def suites() -> Path:
    """The folder of the shipped suites."""
    return shipped() / "suites"


def fixture_folders() -> tuple[Path, ...]:
    """The fixture folders, in the order of looking."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "bringup"
    listed = (Path.cwd() / "fixtures", config, shipped() / "fixtures")
    return tuple(dict.fromkeys(folder.resolve() for folder in listed if folder.is_dir()))


def bench_names() -> tuple[str, ...]:
    """The names of every bench that can be found."""
    return tuple(sorted({file.stem for folder in fixture_folders() for file in (folder / "benches").glob("*.toml")}))


def platform_names() -> tuple[str, ...]:
    """The names of every platform that can be found."""
    return tuple(sorted({file.stem for folder in fixture_folders() for file in (folder / "platforms").glob("*.toml")}))


def find_bench(name: str) -> tuple[Bench, Path]:
    """Load a bench by name or file. Raises ConfigError or UsageMistake with one line."""
    text, file = read_bench(name)
    return load_bench(text, str(file)), file


def read_bench(name: str) -> tuple[str, Path]:
    """The text of a bench by name or file, unjudged. Raises ConfigError or UsageMistake with one line."""
    file = Path(name) if name.endswith(".toml") or "/" in name else _find("benches", name)
    if file is None:
        near = get_close_matches(name, bench_names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        known = ", ".join(bench_names()) or "none"
        raise UsageMistake(f"no bench {name!r}{hint} Known: {known}. `bringup bench new` drafts one.")
    return read_plain(file, "bench file"), file


def find_platform(name: str, beside: Path | None = None) -> tuple[Platform, Path]:
    """Load a platform by name; ``beside`` is the bench file that names it, beside whose folder is looked first."""
    siblings = () if beside is None else (beside.parent.parent / "platforms" / f"{name}.toml", beside.parent / f"{name}.toml")
    for file in siblings:
        if file.is_file() and file.resolve() != (beside.resolve() if beside else None):
            return load_platform(read_plain(file, "platform file"), str(file)), file
    found = _find("platforms", name)
    if found is None:
        names = platform_names()
        near = get_close_matches(name, names, n=1)
        raise ConfigError(
            str(beside or "command line"),
            f"no platform {name!r}; known: {', '.join(names) or 'none'}",
            key="platform",
            nearest=near[0] if near else "",
        )
    return load_platform(read_plain(found, "platform file"), str(found)), found


def find_tape(bench: str, tapes: Path | None = None) -> Path:
    """The folder of a bench's tape. Raises UsageMistake where nothing was recorded.

    ``tapes`` holds it, or is a tape itself, or names one beside the bench's own (a machine with a fault, say).
    """
    every = tuple(folder / "tapes" for folder in fixture_folders())
    folders = every if tapes is None else (tapes,)
    named = () if tapes is None else (tapes, *(folder / tapes for folder in every))
    for place in (*(folder / bench for folder in folders), *named):
        if (place / "tape.toml").is_file():
            return place
    looked = ", ".join(str(folder) for folder in folders) or "no fixture folder"
    raise UsageMistake(f"no tape of bench {bench!r} in {looked}; record one with `bringup run --bench {bench} --record`")


def tape_folders(tapes: Path | None = None) -> tuple[Path, ...]:
    """Every tape that can be found, one folder a tape."""
    folders = (tapes,) if tapes is not None else tuple(folder / "tapes" for folder in fixture_folders())
    return tuple(sorted(file.parent for folder in folders for file in folder.glob("*/tape.toml")))


def _find(kind: str, name: str) -> Path | None:
    for folder in fixture_folders():
        file = folder / kind / f"{name}.toml"
        if file.is_file():
            return file
    return None
