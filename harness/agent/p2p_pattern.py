"""What the copied bytes are, and what wrong ones tell.

    word i of a pattern = mix(i; a, b)         a, b from the run's seed, both UUIDs, direction and size

So every pair, direction, size and offset has its own word, and wrong words say where they come from. The target is filled with a
pattern of its own before (the poison), with a guard zone at each side, which must survive.

    zeros, all ones     what reads of nothing give, and of a device that fell off the bus
    poison still there  the write was dropped
    another pattern     misrouted: the GPU whose pattern it is
    the pattern, moved  shifted
    one bit             a memory or a link

The kernels are PTX text that the driver compiles (compute capability 5.0 and later): no toolkit. Each GPU fills and compares its
own memory, so that a broken mapping cannot hide itself.
"""

import hashlib
import struct
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

GUARD = 4096
"""Bytes of the guard zone at each side of the target."""

TALLY = struct.Struct("<4I")
"""How the kernel ``check`` counts: wrong words, first, last, which bits were ever wrong."""

CLEAN = TALLY.pack(0, 0xFFFFFFFF, 0, 0)

_WORD = 0xFFFFFFFF
_REACH = 4096

Seed = Tuple[int, int]

_HEAD = """\
.version 6.0
.target sm_50
.address_size 64
"""

_MIX = """\
    add.u32 %r6, %r4, %r10;
    mul.lo.u32 %r6, %r6, 0x9E3779B1;
    xor.b32 %r6, %r6, %r11;
    shr.u32 %r7, %r6, 16;
    xor.b32 %r6, %r6, %r7;
    mad.lo.u32 %r6, %r6, 0x85EBCA6B, %r12;
    shr.u32 %r7, %r6, 13;
    xor.b32 %r6, %r6, %r7;
    mul.lo.u32 %r6, %r6, 0xC2B2AE35;
    shr.u32 %r7, %r6, 16;
    xor.b32 %r6, %r6, %r7;
    mul.wide.u32 %d2, %r4, 4;
    add.s64 %d3, %d1, %d2;
"""

_STORE = "    st.global.u32 [%d3], %r6;\n"

_COMPARE = """\
    ld.global.u32 %r8, [%d3];
    setp.eq.u32 %p2, %r8, %r6;
    @%p2 bra NEXT;
    xor.b32 %r8, %r8, %r6;
    atom.global.add.u32 %r9, [%d4], 1;
    atom.global.min.u32 %r9, [%d4+4], %r4;
    atom.global.max.u32 %r9, [%d4+8], %r4;
    atom.global.or.b32 %r9, [%d4+12], %r8;
"""


def ptx() -> bytes:
    """The kernels ``fill(words, count, start, a, b)`` and ``check(words, count, start, a, b, tally)``."""
    return (
        _HEAD + _entry("fill", "", "", _STORE) + _entry("check", ",\n    .param .u64 p5", "    ld.param.u64 %d4, [p5];\n", _COMPARE)
    ).encode("ascii") + b"\0"


def _entry(name: str, parameter: str, load: str, body: str) -> str:
    """A kernel whose threads stride through the words; ``%r4`` is the word's index."""
    return (
        ".visible .entry " + name + "(\n    .param .u64 p0,\n    .param .u32 p1,\n    .param .u32 p2,\n    .param .u32 p3,\n"
        "    .param .u32 p4" + parameter + "\n)\n{\n"
        "    .reg .pred %p<3>;\n    .reg .b32 %r<14>;\n    .reg .b64 %d<5>;\n"
        "    ld.param.u64 %d1, [p0];\n    ld.param.u32 %r13, [p1];\n    ld.param.u32 %r10, [p2];\n"
        "    ld.param.u32 %r11, [p3];\n    ld.param.u32 %r12, [p4];\n"
        + load
        + "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %ntid.x;\n"
        "    mov.u32 %r3, %tid.x;\n    mad.lo.u32 %r4, %r1, %r2, %r3;\n    mov.u32 %r5, %nctaid.x;\n    mul.lo.u32 %r5, %r5, %r2;\n"
        "LOOP:\n    setp.ge.u32 %p1, %r4, %r13;\n    @%p1 bra DONE;\n" + _MIX + body + "NEXT:\n    add.u32 %r4, %r4, %r5;\n"
        "    bra LOOP;\nDONE:\n    ret;\n}\n"
    )


def mix(index: int, seed: Seed) -> int:
    """The word at ``index`` of the pattern of ``seed``: what the kernels compute."""
    word = (index * 0x9E3779B1 & _WORD) ^ seed[0]
    word ^= word >> 16
    word = word * 0x85EBCA6B + seed[1] & _WORD
    word ^= word >> 13
    word = word * 0xC2B2AE35 & _WORD
    return word ^ word >> 16


class Seeds:
    """The patterns of one run, by source, target, direction and size; remembered, because finding a stray one tries them all."""

    def __init__(self, run: int, uuids: Dict[int, str]) -> None:
        self._run = run
        self._uuids = uuids
        self._known: Dict[Tuple[int, int, str, int], Seed] = {}

    def of(self, source: int, target: int, way: str, size: int) -> Seed:
        """The pattern that goes from ``source`` to ``target``."""
        key = (source, target, way, size)
        if key not in self._known:
            text = "|".join((str(self._run), self._uuids[source], self._uuids[target], way, str(size)))
            first, second = struct.unpack("<2I", hashlib.sha256(text.encode()).digest()[:8])
            self._known[key] = (first, second)
        return self._known[key]

    def others(self, but: Seed) -> Iterable[Tuple[int, Seed]]:
        """Every other pattern that was used so far, with the GPU it was filled into."""
        return [(source, seed) for (source, _, way, _), seed in self._known.items() if seed != but and way != "poison"]


def classify(window: bytes, start: int, count: int, *, right: Seed, poison: Tuple[Seed, int], seeds: Seeds) -> Dict[str, Any]:
    """The class of the wrong words, and the GPU ``of`` whose data it is.

    ``window`` is what was found from word ``start`` on, ``count`` how many words are wrong in all, ``poison`` the target's own
    pattern and how many words before the data it begins.
    """
    words = struct.unpack("<{}I".format(len(window) // 4), window[: len(window) // 4 * 4])
    wrong = [(start + place, word) for place, word in enumerate(words) if word != mix(start + place, right)][:8]
    if not wrong:
        return {"class": "other"}
    if all(word == mix(index + poison[1], poison[0]) for index, word in wrong):
        return {"class": "dropped"}
    for value, name in ((0, "zero"), (_WORD, "all ones")):
        if all(word == value for _, word in wrong):
            return {"class": name}
    stranger = _whose(wrong, seeds.others(right))
    if stranger is not None:
        return {"class": "misrouted", "of": stranger}
    if count == 1 and bin(wrong[0][1] ^ mix(wrong[0][0], right)).count("1") == 1:
        return {"class": "single bit"}
    return {"class": "shifted" if _is_shifted(wrong, right) else "other"}


def _whose(wrong: Sequence[Tuple[int, int]], known: Iterable[Tuple[int, Seed]]) -> Optional[int]:
    return next((gpu for gpu, seed in known if all(word == mix(index, seed) for index, word in wrong)), None)


def _is_shifted(wrong: Sequence[Tuple[int, int]], right: Seed) -> bool:
    """Do the wrong words stand elsewhere in the right pattern, all by the same distance? One word alone proves nothing."""
    if len(wrong) < 2:
        return False
    first = wrong[0][0]
    near: Dict[int, int] = {mix(index, right): index for index in range(max(0, first - _REACH), first + _REACH)}
    distances: List[Optional[int]] = [index - near[word] if word in near else None for index, word in wrong]
    # what moves leaves a torn edge: most words, not all, must agree
    likely = max(set(distances), key=distances.count)
    return likely is not None and distances.count(likely) * 2 > len(distances)
