"""Small files of /sys and /proc below a root, and a note of everything that could not be read."""

import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

AS_ROOT = "run as root on the host itself"
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
_UNKNOWN_WIDTH = 255


class Tree:
    """A file tree with /sys and /proc in it. A file that does not exist is no trouble; one that cannot be read is noted."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._unread: Dict[Tuple[str, str, str], List[str]] = {}

    def path(self, *parts: str) -> str:
        """The real place of a file."""
        return os.path.join(self.root, *parts)

    def note(self, what: str, why: str, do: str = "", of: str = "") -> None:
        """Note something unread; equal notes about several functions become one."""
        noted = self._unread.setdefault((what, why, do), [])
        if of and of not in noted:
            noted.append(of)

    def unread(self) -> Iterator[Dict[str, Any]]:
        """One line for each kind of thing that could not be read."""
        for (what, why, do), of in sorted(self._unread.items()):
            yield {"kind": "unread", "what": what, "of": sorted(of), "why": why, "do": do}

    def names(self, *parts: str) -> List[str]:
        """The sorted names in a folder; none where there is no such folder."""
        try:
            return sorted(os.listdir(self.path(*parts)))
        except FileNotFoundError:
            return []
        except OSError as error:
            self.note("/" + "/".join(parts), _reason(error), AS_ROOT)
            return []

    def text(self, *parts: str, of: str = "") -> Optional[str]:
        """A small file's text without the last newline; None where it does not exist or, noted, cannot be read."""
        data = self.data(*parts, of=of, most=1 << 20)
        return None if data is None else data.decode("utf-8", "backslashreplace").strip()

    def data(self, *parts: str, of: str = "", most: int) -> Optional[bytes]:
        """The first ``most`` bytes of a file."""
        try:
            with open(self.path(*parts), "rb", buffering=0) as file:
                pieces = []
                while most > 0:
                    piece = file.read(most)
                    if not piece:
                        break
                    pieces.append(piece)
                    most -= len(piece)
                return b"".join(pieces)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.note(parts[-1] if of else "/" + "/".join(parts), _reason(error), _advice(error), of)
            return None

    def link(self, *parts: str) -> str:
        """The last name of what a symbolic link leads to; "" where there is no link."""
        try:
            return os.path.basename(os.readlink(self.path(*parts)))
        except OSError:
            return ""


def whole(text: Optional[str]) -> Optional[int]:
    """A whole number, decimal or 0x; None for anything else."""
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def speed(text: Optional[str]) -> Optional[float]:
    """``8.0 GT/s PCIe`` or, from old kernels, ``8 GT/s``; None for ``Unknown``."""
    found = _SPEED.match(text or "")
    return float(found.group(1)) if found else None


def width(text: Optional[str]) -> Optional[int]:
    """Lanes; None where the kernel prints 255 for "unknown"."""
    number = whole(text)
    return None if number == _UNKNOWN_WIDTH else number


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _advice(error: OSError) -> str:
    return AS_ROOT if isinstance(error, PermissionError) else ""
