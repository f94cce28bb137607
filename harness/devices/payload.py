"""The agent as one zip that travels to the machine under test, and the few lines that start it there.

    stdin: zip ──> python3 -c BOOTSTRAP worker ...  ──> checks the sum ──> nameless file ──> agent.__main__
                                                                     (/proc/PID/fd/N: gone when the process is)

Nothing is installed, and nothing is left behind even by a kill: the file never has a name. Python 3.6 is enough.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from harness.errors import BenchError

NOT_STARTED = 97
"""Exit status of the bootstrap where it could not start the agent; the reason is its last line on stderr."""

_START_OF_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_MAIN = "import sys\nfrom agent.__main__ import main\nsys.exit(main())\n"
_BUNDLED = ("pynvml",)
_BOOTSTRAP = """\
import sys
sys.path[:] = [folder for folder in sys.path if folder]
def refuse(why):
    sys.stderr.write(why + "\\n")
    sys.exit({status})
if sys.version_info < (3, 6):
    refuse("the agent needs Python 3.6 or later, this is " + sys.version.split()[0])
import hashlib, os, runpy, tempfile
data = sys.stdin.buffer.read()
if not data:
    refuse("the agent did not arrive: nothing came on stdin (a container needs `docker exec -i`)")
if hashlib.sha256(data).hexdigest() != "{digest}":
    refuse("the agent did not arrive whole: its checksum is wrong after %d of {size} bytes" % len(data))
try:
    file = os.fdopen(os.memfd_create("agent"), "w+b")
except (AttributeError, OSError):
    file = tempfile.TemporaryFile()
file.write(data)
file.flush()
sys.argv[0] = "/proc/%d/fd/%d" % (os.getpid(), file.fileno())
sys.dont_write_bytecode = True
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@cache
def build_payload() -> bytes:
    """The agent's zip, the same bytes for the same sources: package ``agent``, its main, and nvidia-ml-py.

    Raises BenchError where nvidia-ml-py, which the harness depends on, is not installed.
    """
    entries = {"__main__.py": _MAIN.encode()}
    entries.update(_sources(files("harness.agent"), "agent"))
    for module in _BUNDLED:
        entries[f"{module}.py"] = _module_source(module)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(entries):
            entry = zipfile.ZipInfo(name, _START_OF_ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, entries[name], compresslevel=9)
    return buffer.getvalue()


def bootstrap(payload: bytes) -> str:
    """The program for ``python3 -c`` that reads ``payload`` from stdin and runs it with the arguments that follow.

    It is one line, as a serial console wants it, and does not look into the working folder for modules.
    """
    digest = hashlib.sha256(payload).hexdigest()
    return f"exec({_BOOTSTRAP.format(status=NOT_STARTED, digest=digest, size=len(payload))!r})"


def _sources(folder: Traversable, name: str) -> dict[str, bytes]:
    sources: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            sources.update(_sources(entry, f"{name}/{entry.name}"))
        elif entry.name.endswith(".py"):
            sources[f"{name}/{entry.name}"] = entry.read_bytes()
    return sources


def _module_source(module: str) -> bytes:
    """A module's source, found without importing it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise BenchError(f"the agent needs the Python module {module}, which is not installed here: pip install nvidia-ml-py")
    return Path(spec.origin).read_bytes()
