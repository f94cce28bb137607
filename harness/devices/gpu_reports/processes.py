"""Who uses the GPUs, as ``nvidia-smi`` lists it: ``-q -x``, or the table of processes below the plain one.

    <gpu id="..."> ... <process_info><pid>2117</pid><type>G</type><process_name>Xorg</process_name> ...
    |    0   N/A  N/A      2117      G   /usr/lib/xorg/Xorg                 45MiB |

Peers are counted system-wide, so a process that holds some (an X server: NVIDIA/nccl#241) takes them from all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.devices.gpu import Process
from harness.devices.gpu_reports.facts import Reading, Tool

_KINDS = {"G": "graphics", "C": "compute", "C+G": "compute and graphics", "M+C": "compute"}
_INFO = re.compile(
    r"<pid>(\d{1,10})</pid>\s{0,40}<type>([A-Z+]{1,3})</type>\s{0,40}<process_name>([^<\n]{1,200})</process_name>",
)
_ROW = re.compile(
    r"^\| {1,8}(\d{1,3})(?: {1,8}(?:N/A|\d{1,5}) {1,8}(?:N/A|\d{1,5}))? {1,12}(\d{1,10}) {1,12}(C\+G|M\+C|G|C) {1,12}"
    r"(\S[^|\n]{0,120}?) {1,60}(?:\d{1,8}MiB|N/A) \|$",
    re.MULTILINE,
)


def looks_like(text: str) -> bool:
    """True where a process is listed."""
    return "<process_info>" in text or ("Processes" in text and _ROW.search(text) is not None)


def parse(text: str, source: str) -> Reading:
    """Read the processes by GPU, in nvidia-smi's order of GPUs."""
    found = tuple(dict.fromkeys((*_from_xml(text), *_from_table(text))))
    return Reading(Tool.PROCESSES, source, f"{len(found)} on GPUs" if found else "", processes=found)


def _from_xml(text: str) -> Iterator[Process]:
    for index, piece in enumerate(text.split("<gpu id=")[1:]):
        for pid, kind, name in _INFO.findall(piece):
            yield Process(index, int(pid), name.strip(), _KINDS.get(kind, ""))


def _from_table(text: str) -> Iterator[Process]:
    for index, pid, kind, name in _ROW.findall(text):
        yield Process(int(index), int(pid), name.strip(), _KINDS.get(kind, ""))
