"""Evidence: a recording on disk while it happens, one append an event, so that a killed run leaves a tape that can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.tape.events import Event
from harness.tape.format import Bodies, line_of, track_file
from harness.tape.header import HEADER, TapeInfo, header_text


class Evidence:
    """A tape that grows. Where the disk refuses, ``trouble`` says why and nothing more is appended: the run goes on."""

    def __init__(self, folder: Path, info: TapeInfo | None) -> None:
        self.folder = folder
        self.trouble = ""
        self._info = info
        self._bodies = Bodies(folder)

    def describe(self, complete: Callable[[TapeInfo], TapeInfo]) -> None:
        """Write the header, completed with what is known by now."""
        if self._info is not None:
            header = header_text(complete(self._info)).encode("utf-8")
            self._try(lambda: self._put(HEADER, header))

    def append(self, track: str, event: Event) -> None:
        """Write one event."""
        self._try(lambda: self._append(track_file(track), line_of(event, self._bodies)))

    def _try(self, step: Callable[[], None]) -> None:
        if self.trouble:
            return
        try:
            step()
        except OSError as error:
            self.trouble = f"the evidence in {self.folder} is incomplete: {error.strerror or error}"

    def _put(self, name: str, content: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{name}.new"
        beside.write_bytes(content)
        beside.replace(self.folder / name)

    def _append(self, name: str, line: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as track:
            track.write(line)
