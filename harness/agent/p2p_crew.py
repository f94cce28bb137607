"""The two children of a run and what they have said: one copies and may hang, the other watches.

    ask(command) ─▶ done | shut | failed | stuck        stuck also where the child said nothing in time; it is ended then

The copying child looks at its own deadline while it waits. One that is silent for longer than that hangs inside the driver.
"""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .child import Child, Silent
from .p2p_load import Load
from .trouble import Trouble
from .watch import Watch

TOO_MANY_PEERS = 711
_GRACE, _LAST_WORD = 5.0, 15.0
_TOLD = ("index", "samples", "power", "temperature", "slowdown", "reasons")
"""What of a GPU's telemetry is told. Its link is not: it is read apart, only while copies are under way."""


class Crew:
    """Starts the children, asks them, and collects what every answer brings along: links, costs, Xids."""

    def __init__(self, load: Load, patience: float) -> None:
        self._load = Child(load.serve)
        self._watch: Optional[Child] = None
        self._silence = 2 * patience + _GRACE
        self.reaped = True
        self.opened: List[float] = []
        self.links: Dict[int, List[Tuple[int, int]]] = {}
        self.xids: List[Dict[str, Any]] = []

    def end(self) -> None:
        """Leave no process behind."""
        self._load.end()
        if self._watch is not None:
            self._watch.end()

    def ask(self, **command: Any) -> Dict[str, Any]:
        """What the copying child says at the end of a command. Where that is not "done", the child is ended.

        ``reaped`` tells whether that worked. Raises Trouble where the driver or its library is missing.
        """
        if not self._load.lives:
            self._load.start()
        try:
            self._load.send(**command)
            said = self._answer()
        except Silent as silent:
            said = {"say": "stuck", "why": str(silent)}
        if said["say"] == "done":
            for gpu, generation, width in said["links"]:
                self.links.setdefault(gpu, []).append((generation, width))
        else:
            self.reaped = self._load.end()
        return said

    def renew(self) -> None:
        """Let the next command begin with a new child, whose contexts are its own."""
        self._load.end()

    def ask_alone(self, **command: Any) -> Dict[str, Any]:
        """The same for one pair. A process that holds many contexts may run out of peers: then once more in a new one."""
        said = self.ask(**command)
        if said["say"] == "shut" and said["error_code"] == TOO_MANY_PEERS:
            said = self.ask(**command)
        return said

    def _answer(self) -> Dict[str, Any]:
        while True:
            said = self._load.next(self._silence)
            if said["say"] == "opened":
                self.opened.append(said["seconds"])
            elif said["say"] != "alive":
                return said

    def begin_watch(self, addresses: Dict[int, str]) -> Dict[str, Any]:
        """What NVML says at the start; nothing where there is no NVML, and then there are no links and no Xids either."""
        watch = Child(Watch(addresses).serve)
        watch.start()
        try:
            begin = watch.next(self._silence)
        except (Silent, Trouble):
            watch.end()
            return {}
        self._watch = watch
        return begin

    def news(self) -> Iterator[Dict[str, Any]]:
        """Lines for the Xids that came since the last look."""
        for said in self._watch.waiting() if self._watch is not None else ():
            if said["say"] == "xid":
                yield self._xid(said)

    def _xid(self, said: Dict[str, Any]) -> Dict[str, Any]:
        line = {name: said[name] for name in ("index", "address", "xid") if said[name] not in (None, "")}
        self.xids.append(line)
        return dict(line, kind="xid")

    def end_watch(self) -> Iterator[Dict[str, Any]]:
        """The last Xids, power and clocks of the whole run, and one line for each GPU's link under load."""
        seconds, replays = 0.0, {}  # type: float, Dict[int, int]
        if self._watch is not None:
            try:
                self._watch.send(do="end")
                said = self._watch.next(_LAST_WORD)
                while said["say"] != "end":
                    yield self._xid(said)
                    said = self._watch.next(_LAST_WORD)
                seconds, replays = said["seconds"], dict(said["replays"])
                for line in said["telemetry"]:
                    yield dict({name: line[name] for name in _TOLD if name in line}, kind="telemetry")
            except (Silent, Trouble):
                # what it read before stands; the counters' second reading is missing
                pass
        for gpu, readings in sorted(self.links.items()):
            line = _link(gpu, readings)
            yield dict(line, seconds=seconds, replays=replays[gpu]) if gpu in replays else line


def _link(gpu: int, readings: Sequence[Tuple[int, int]]) -> Dict[str, Any]:
    return {
        "kind": "link",
        "index": gpu,
        "generation": min(generation for generation, _ in readings),
        "width": min(width for _, width in readings),
        "samples": len(readings),
    }
