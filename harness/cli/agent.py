"""``bringup agent``: the agent as a file, for machines that a person carries it to."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.devices.payload import build_payload
from harness.errors import UsageMistake


def build(target: Path) -> list[str]:
    """Write the zip that otherwise travels over ssh or the console; the same bytes for the same sources. Says how to run it."""
    payload = build_payload()
    try:
        # beside its place and then renamed: nobody ever runs half of it
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(payload)
        partial.replace(target)
    except OSError as error:
        raise UsageMistake(f"{target}: cannot be written: {error.strerror or error}") from None
    digest = hashlib.sha256(payload).hexdigest()
    return [f"wrote {target}, {len(payload)} bytes, sha256 {digest}", f"run it there: python3 {target.name} nvml"]
