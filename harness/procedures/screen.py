"""What the host's screen shows, and the film of its start, as evidence before anybody restarts the machine again.

Both are kept where they can be had: a picture needs embedded video and a licence, a film needs boot capture to be on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness.devices.idrac import Idrac
from harness.errors import BringupError, TapeError

Had = TypeVar("Had")


@dataclass(frozen=True)
class Screen:
    """``image`` is a PNG, empty where there is none; ``video`` the path on the iDRAC at which the film can be fetched.

    ``lacking`` says why there is no picture.
    """

    image: bytes = b""
    video: str = ""
    lacking: str = ""

    @property
    def told(self) -> tuple[str, ...]:
        """Lines for whoever reads the failure."""
        lines = []
        if self.image:
            lines.append(f"screenshot: {len(self.image)} bytes, sha256 {hashlib.sha256(self.image).hexdigest()[:12]}...")
        if self.video:
            lines.append(f"boot video: GET {self.video} from the iDRAC, before the next start replaces it")
        return tuple(lines)


NOTHING_SEEN = Screen()


def take_screen(idrac: Idrac, *, with_video: bool = False) -> Screen:
    """Picture and film, as far as they can be had. Raises TapeError only."""
    shot, lacking = _had(idrac.screenshot)
    image = b"" if shot is None else shot.image
    video, _ = _had(idrac.boot_video) if with_video else ("", "")
    return Screen(image, video or "", "" if image else lacking or "the iDRAC gave no picture")


def _had(ask: Callable[[], Had]) -> tuple[Had | None, str]:
    try:
        return ask(), ""
    except TapeError:
        raise
    except BringupError as error:
        return None, str(error)
