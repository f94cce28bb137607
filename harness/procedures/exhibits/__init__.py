"""What a stage shows of its facts: small plain trees that go into the record, so that a page can draw them without the machine.

    firmware   what runs, and what the platform's baseline asks for
    bios       each setting: wanted, before, after; the job as it went
    boot       the stages of the start, the log since, the end of the console
    pcie       the tree as far as expected parts hang on it, and what each host bridge has to give
    p2p        three figures for each ordered pair
    resnet50   each GPU alone and while all train, the windows

Pure functions from facts to what JSON can hold. Each tree is bounded: long lists are cut, and say so. A key that holds a text
of the machine is none of the record's own words, so that secrets are taken out of it like anywhere else.
"""

from harness.procedures.exhibits.bios import show_bios
from harness.procedures.exhibits.boot import show_boot
from harness.procedures.exhibits.firmware import show_firmware
from harness.procedures.exhibits.p2p import show_p2p
from harness.procedures.exhibits.pcie import show_pcie
from harness.procedures.exhibits.resnet50 import show_resnet50

__all__ = ["show_bios", "show_boot", "show_firmware", "show_p2p", "show_pcie", "show_resnet50"]
