"""Whether a process of this host still lives, told apart from a later one of the same number.

    identity = boot, space of process numbers, start time

    another boot      ─> gone (the machine restarted)
    another space     ─> may live (a container's numbers are not ours)
    no such number    ─> gone
    dead, not waited  ─> gone
    another start     ─> gone (the number was used again)

In doubt a process may live: a lock is then held until it expires.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_UNKNOWN = "-"
_DEAD = frozenset({"Z", "X"})
"""States of a process that was killed and not yet waited for (proc_pid_stat(5))."""


def identify(pid: int) -> str:
    """What tells a process from a later one of the same number: boot, space of process numbers, start time."""
    boot = space = _UNKNOWN
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{boot} {space} {_state_and_start(pid)[1]}"


def may_live(pid: int, identity: str) -> bool:
    """False where the process is gone for certain: no such process, or another one of that number, or the machine restarted."""
    boot, space, start = identity.split()
    here_boot, here_space, _ = identify(os.getpid()).split()
    if boot != here_boot:
        return False
    if space != here_space:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    state, now_start = _state_and_start(pid)
    return state not in _DEAD and (start == now_start or _UNKNOWN in {start, now_start})


def _state_and_start(pid: int) -> tuple[str, str]:
    """State and start time of a process (fields 3 and 22 of proc_pid_stat(5)); unknown where /proc is hidden or missing."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _UNKNOWN, _UNKNOWN
    fields = stat.rpartition(")")[2].split()
    return fields[0], fields[19]
