"""Who uses the machine: people logged in, and processes on GPUs. A system that is up and does not tell is not free.

no host, or nothing answers there ──▶ nobody to ask: free
`who`, `nvidia-smi` answer ─────────▶ found
anything else ──────────────────────▶ silence: in the way while the BMC says that an operating system runs
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.devices.host import Host
from harness.errors import BringupError, TapeError, Timeout, Unreachable


@dataclass(frozen=True)
class Occupancy:
    """``found`` says who uses it, empty for nobody; ``silence`` what could not be asked and why, empty where all was."""

    found: str = ""
    silence: str = ""

    def hindrance(self, server: str, progress: str, *, assume_free: bool = False) -> str:
        """Why the machine is not to be touched, or nothing.

        ``server`` is ServerStatus, ``progress`` BootProgress (empty on old firmware): only an operating system that runs can be in
        use. ``assume_free`` overrules silence, never an answer.
        """
        if self.found:
            return self.found
        if self.silence and not assume_free and server == "OutOfPOST" and progress in ("", "OSRunning"):
            return f"perhaps: {self.silence}; look who is there, then go on with --assume-free"
        return ""


NOBODY = Occupancy()


def occupants(host: Host | None) -> Occupancy:
    """Ask the host who is there. Raises TapeError only.

    A login on a serial line is our own console; a command over ssh makes none.
    """
    if host is None:
        return NOBODY
    found, silence = [], []
    for ask in (_people, _gpu_processes):
        try:
            found.append(ask(host))
        except TapeError:
            raise
        except Unreachable:
            return NOBODY
        except BringupError as error:
            silence.append(str(error))
    return Occupancy(" and ".join(filter(None, found)), f"the host is up and did not tell ({silence[0]})" if silence else "")


def _people(host: Host) -> str:
    people = [line.split() for line in _lines(host, "who")]
    names = sorted({words[0] for words in people if len(words) > 1 and not words[1].startswith(("ttyS", "hvc"))})
    return f"{', '.join(names)} logged in" if names else ""


def _gpu_processes(host: Host) -> str:
    """Nothing where nvidia-smi fails or is not there: without a driver nothing runs on a GPU. One that hangs does not tell."""
    try:
        running = _lines(host, "nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader")
    except (TapeError, Unreachable, Timeout):
        raise
    except BringupError:
        return ""
    return f"{len(running)} processes on GPUs ({running[0]})" if running else ""


def _lines(host: Host, *argv: str) -> list[str]:
    return [line.strip() for line in host.observe(*argv, timeout=30).splitlines() if line.strip()]
