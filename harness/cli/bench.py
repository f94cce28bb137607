"""``bringup bench``: draft files for a person to complete, and say what they mean."""

from __future__ import annotations

from pathlib import Path

from harness import locator
from harness.errors import ConfigError, UsageMistake

TEMPLATE = """\
# Where a machine is and how to reach it. Secrets stand elsewhere and are only referred to.
schema = 1
name = "{name}"
platform = "lqd8360"            # what the machine should be: a file in platforms/
service_tag = "CHANGE-ME"       # the only machine that may be written to

[bmc]
url = "https://192.0.2.10"
user = "bringup"
password = {{ env = "BRINGUP_BMC_PASSWORD" }}    # or {{ file = "~/.config/bringup/{name}.password" }}
# the certificate's fingerprint: openssl s_client -connect HOST:443 </dev/null | openssl x509 -noout -fingerprint -sha256
pin = "sha256:{zeros}"
"""


def draft(name: str, source: str | None, *, force: bool) -> list[Path]:
    """Write a bench (and, from a live machine, its platform) below ./fixtures. Raises UsageMistake with one line."""
    if source not in (None, "local"):
        raise UsageMistake(f"--from-live {source}: only 'local', the machine this runs on, can be drafted from")
    if source is None and not name:
        raise UsageMistake("name the bench: bringup bench new NAME, or bringup bench new --from-live local")
    fixtures = Path("fixtures")
    if source is None:
        return _write({fixtures / "benches" / f"{_plain(name)}.toml": TEMPLATE.format(name=name, zeros="0" * 64)}, force=force)
    from harness.clock import WallClock
    from harness.devices.host import Host
    from harness.live.local import LocalCommands
    from harness.procedures.draft import draft_local

    clock = WallClock()
    commands = LocalCommands(clock)
    try:
        bench, platform = draft_local(Host(commands, clock), _plain(name or "local"))
    finally:
        commands.close()
    chosen = name or "local"
    return _write(
        {fixtures / "benches" / f"{chosen}.toml": bench, fixtures / "platforms" / f"{chosen}.toml": platform}, force=force
    )


def describe(name: str) -> list[str]:
    """What a bench and its platform say, one line a thing. Raises ConfigError where they do not hold together."""
    bench, bench_file = locator.find_bench(name)
    platform, platform_file = locator.find_platform(bench.platform, bench_file)
    slots = bench.slots(platform, str(bench_file))
    lines = [
        f"bench {bench.name} ({bench_file})",
        f"platform {platform.name} ({platform_file}): {platform.system or 'no system named'}",
        f"slots: {len(slots)} populated of {len(platform.slots)}, {len(platform.uplinks)} uplinks",
    ]
    if bench.lab is not None:
        return [*lines, f"a simulated machine of grade {bench.lab.grade}: no hardware is touched"]
    if (reference := bench.password(str(bench_file))) is not None:
        reference.read()
        lines.append(f"bmc: {bench.bmc.url if bench.bmc else ''}, password from {reference}, which is set")
    if bench.host is not None and (login := bench.host_password(str(bench_file))) is not None:
        login.read()
        lines.append(f"host user {bench.host.user}: password from {login}, which is set")
    for endpoint in ("host", "console", "fabric"):
        if getattr(bench, endpoint) is None:
            lines.append(f"no [{endpoint}]")
    if bench.console is not None:
        lines.append(f"console: {bench.console.url or bench.console.command}")
    if bench.host is not None:
        lines.append(f"host: via {bench.host.via} {bench.host.address}".rstrip())
    return lines


def _plain(name: str) -> str:
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith((".", "-")):
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
