"""What the NVIDIA driver's error numbers (Xid) mean, and what a person does about them.

Meaning and action follow NVIDIA's own catalogue as oracle-quickstart/oci-hpc keeps it
(playbooks/roles/healthchecks/files/xid_catalog_data.json); the words are ours. ``blame`` tells whose fault a number likely is:

    part       the GPU or its memory             link     the way to it (PCIe or NVLink)
    software   the program or the driver         note     a change of state that is no fault by itself
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class XidMeaning:
    """One number of the driver's catalogue."""

    number: int
    means: str
    blame: str
    do: str

    @property
    def is_hardware(self) -> bool:
        """Not what a program does to itself."""
        return self.blame in ("part", "link")


_RESTART = "restart the program; if it comes back with another program, test the GPU"
_RESET = "stop what runs on the GPU and reset it (nvidia-smi --gpu-reset)"
_COLD = "power the machine and its chassis off and on; if it comes back, reseat the card and swap its slot"
_IGNORE = "nothing by itself; read the lines around it"
_SUPPORT = "keep an nvidia-bug-report and ask the vendor"
_NVLINK = "check the NVLink bridges or the baseboard, then reset every GPU on the link"
_ROWS = (
    (8, "the GPU stopped working on a program's commands", "software", _RESTART),
    (11, "a program's command stream is corrupted", "software", _RESTART),
    (13, "a graphics engine exception, mostly an illegal access of a program", "software", _RESTART),
    (25, "a program's command stream is illegal", "software", _RESTART),
    (31, "a program touched memory that it does not have", "software", _RESTART),
    (32, "a program's command stream was corrupted on its way over PCIe", "link", "check the link's error counters and its seat"),
    (38, "a fault of the driver's firmware", "software", _IGNORE),
    (39, "a copy engine exception", "software", _RESTART),
    (43, "the GPU stopped working for one program", "software", _IGNORE),
    (44, "a fault while programs were switched", "software", _IGNORE),
    (45, "a program was cleaned up after an earlier error", "note", "look for the error before it"),
    (46, "the GPU stopped processing", "part", _RESET),
    (48, "a memory error that ECC could not correct", "part", "reset the GPU; look for 63 or 64 after it, and test its memory"),
    (54, "the card's power cable is not connected", "part", "power off and connect the card's auxiliary power"),
    (61, "an internal microcontroller stopped", "part", _SUPPORT),
    (62, "an internal microcontroller halted", "part", _RESET),
    (
        63,
        "a page or row of memory is marked to be retired",
        "note",
        "reset the GPU when it is free; the retirement is then in force",
    ),
    (64, "a page or row of memory could not be retired", "part", "reset the GPU; if it comes back, replace the card"),
    (68, "a video decoder exception", "software", _RESTART),
    (69, "a graphics engine class error", "software", _RESTART),
    (74, "an NVLink error", "link", _NVLINK),
    (79, "the GPU fell off the bus: the driver reads only ones from it", "link", _COLD),
    (92, "many single-bit memory errors", "note", "watch the rate; no page was lost"),
    (94, "a memory error that one program felt", "part", "restart that program; reset the GPU when it is free"),
    (95, "a memory error that could not be contained", "part", "stop everything on the GPU and reset it"),
    (109, "switching between programs timed out", "part", _RESET),
    (110, "a security fault", "part", _RESET),
    (119, "the GPU's own processor (GSP) does not answer the driver", "part", f"{_RESET}; if it stays, {_COLD}"),
    (120, "an error of the GPU's own processor (GSP)", "part", f"{_RESET}; if it stays, {_COLD}"),
    (121, "an error on the link between chips that was corrected", "note", _IGNORE),
    (136, "a link did not train", "link", "reset the GPU; then check the cable or the connector of that link"),
    (137, "an NVLink access without permission, mostly of a program", "software", _IGNORE),
    (140, "a memory error that ECC could not recover", "part", _RESET),
    (143, "the GPU did not initialise", "part", _RESET),
    *((number, "an error of NVLink 5", "link", _NVLINK) for number in range(144, 151)),
    (154, "the driver changed what it recommends as recovery", "note", "do what the line says, look for the error before it"),
    (155, "an NVLink error that software defines", "link", _NVLINK),
    (156, "a part of the GPU was retired", "part", _RESET),
    (158, "the GPU did not answer in time", "part", _RESET),
    (167, "a PCIe transaction timed out fatally", "link", "read the error registers of the ports above, then reseat the card"),
)
_MEANINGS = {row[0]: XidMeaning(*row) for row in _ROWS}


def meaning_of(number: int) -> XidMeaning:
    """What is known of a number; for one that is not in the table: that nothing is."""
    return _MEANINGS.get(number) or XidMeaning(number, "not in this table", "note", _SUPPORT)
