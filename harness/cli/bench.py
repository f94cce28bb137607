"""``bringup bench``: draft files for a person to complete, and say what they mean."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

from harness import locator
from harness.bench import NO_PIN, PLACEHOLDER, Bench, placeholders
from harness.cli.streams import complain
from harness.config import survey
from harness.errors import ConfigError, UsageMistake

TEMPLATE = f"""\
# Where a machine is and how to reach it. Secrets stand elsewhere and are only referred to.
schema = 1
name = "{{name}}"
platform = "lqd8360"            # what the machine should be: a file in platforms/
service_tag = "{PLACEHOLDER}"       # the only machine that may be written to

[bmc]
url = "https://{PLACEHOLDER}"       # the address of the management controller: https://HOST[:PORT]
user = "bringup"
password = {{{{ env = "BRINGUP_BMC_PASSWORD" }}}}    # or {{{{ file = "~/.config/bringup/{{name}}.password" }}}}
# the certificate's fingerprint: openssl s_client -connect HOST:443 </dev/null | openssl x509 -noout -fingerprint -sha256
pin = "{NO_PIN}"
"""


def draft(name: str, source: str | None, *, force: bool) -> list[Path]:
    """Write a bench (and, from a live machine, its platform) below ./fixtures. Raises UsageMistake with one line."""
    if source not in (None, "local"):
        raise UsageMistake(f"--from-live {source}: only 'local', the machine this runs on, can be drafted from")
    if source is None and not name:
        raise UsageMistake("name the bench: bringup bench new NAME, or bringup bench new --from-live local")
    fixtures = Path("fixtures")
    chosen = _plain(name or "local")
    if not force:
        _refuse_shadow("bench", chosen, locator.bench_names(), fixtures / "benches")
    if source is None:
        return _write({fixtures / "benches" / f"{chosen}.toml": TEMPLATE.format(name=chosen)}, force=force)
    if not force:
        _refuse_shadow("platform", chosen, locator.platform_names(), fixtures / "platforms")
    from harness.clock import WallClock
    from harness.devices.host import Host
    from harness.live.local import LocalCommands
    from harness.procedures.draft import draft_local

    clock = WallClock()
    commands = LocalCommands(clock)
    try:
        bench, platform = draft_local(Host(commands, clock), chosen)
    finally:
        commands.close()
    return _write(
        {fixtures / "benches" / f"{chosen}.toml": bench, fixtures / "platforms" / f"{chosen}.toml": platform}, force=force
    )


def describe(name: str) -> Iterator[str]:
    """What a bench and its platform say, one line a thing, as far as they can be read.

    Raises UsageMistake at the end where something is wrong; of several things each is told in a line of its own before.
    """
    text, file = locator.read_bench(name)
    bench, found = survey(Bench, text, str(file))
    problems: list[UsageMistake] = [*found]
    if bench is not None:
        yield f"bench {bench.name} ({file})"
        problems += placeholders(bench, str(file))
        yield from _describe_platform(bench, file, problems)
        yield from _describe_reach(bench, str(file), problems)
    if len(problems) == 1:
        raise problems[0]
    for problem in problems:
        complain(str(problem))
    if problems:
        raise UsageMistake(f"{len(problems)} problems")


def _describe_platform(bench: Bench, file: Path, problems: list[UsageMistake]) -> Iterator[str]:
    try:
        platform, platform_file = locator.find_platform(bench.platform, file)
        yield f"platform {platform.name} ({platform_file}): {platform.system or 'no system named'}"
        slots = bench.slots(platform, str(file))
        yield f"slots: {len(slots)} populated of {len(platform.slots)}, {len(platform.uplinks)} uplinks"
    except UsageMistake as mistake:
        problems.append(mistake)


def _describe_reach(bench: Bench, where: str, problems: list[UsageMistake]) -> Iterator[str]:
    if bench.lab is not None:
        yield f"a simulated machine of grade {bench.lab.grade}: no hardware is touched"
        return
    reference = bench.password(where)
    if bench.bmc is not None and reference is not None:
        try:
            reference.read()
            yield f"bmc: {bench.bmc.url}, password from {reference}, which is set"
        except ConfigError as missing:
            yield f"bmc: {bench.bmc.url}"
            problems.append(missing)
        if bench.bmc.ca:
            problems += _objections_to_ca(bench.bmc.ca, where)
    for endpoint in ("host", "console", "fabric"):
        if getattr(bench, endpoint) is None:
            yield f"no [{endpoint}]"
    if bench.console is not None:
        yield f"console: {bench.console.url or bench.console.command}"
    if bench.host is not None and (login := bench.host_password(where)) is not None:
        try:
            login.read()
            yield f"host user {bench.host.user}: password from {login}, which is set"
        except ConfigError as missing:
            problems.append(missing)
    if bench.fabric is not None:
        yield from _describe_fabric(bench, where, problems)
    if bench.host is not None:
        yield f"host: via {bench.host.via} {bench.host.address}".rstrip()


def _describe_fabric(bench: Bench, where: str, problems: list[UsageMistake]) -> Iterator[str]:
    if bench.fabric is None:
        return
    yield f"fabric: {bench.fabric.url}, where this machine is {bench.fabric.machine}; it is only read"
    if (key := bench.fabric_password(where)) is not None:
        try:
            key.read()
            yield f"fabric user {bench.fabric.user}: password from {key}, which is set"
        except ConfigError as missing:
            problems.append(missing)
    if bench.fabric.ca:
        problems += _objections_to_ca(bench.fabric.ca, where, "fabric.ca")


def _objections_to_ca(ca: str, where: str, key: str = "bmc.ca") -> Iterator[ConfigError]:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=Path(ca).expanduser())
    except ssl.SSLError:
        yield ConfigError(where, f"{ca} holds no PEM certificate", key=key)
    except OSError as error:
        yield ConfigError(where, f"cannot read {ca}: {error.strerror}", key=key)


def _refuse_shadow(kind: str, name: str, known: tuple[str, ...], own: Path) -> None:
    """A new file must not silently take the place of one that is found by its name. One of ours is refused when it is written."""
    if name in known and not (own / f"{name}.toml").exists():
        raise UsageMistake(f"there is a {kind} {name!r} already and this one would hide it: choose another name, or give --force")


def _plain(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageMistake(f"{name!r} is not a bench name: letters, digits, dot, dash and underscore")
    return name


def _write(texts: dict[Path, str], *, force: bool) -> list[Path]:
    for path in texts:
        if path.exists() and not force:
            raise UsageMistake(f"{path} exists; --force overwrites it, or choose another name")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".tmp")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            raise ConfigError(str(path), f"cannot be written: {error.strerror}") from None
    return list(texts)
