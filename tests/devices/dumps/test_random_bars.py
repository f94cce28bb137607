"""Random BARs written in every format that can tell them, and read back: each tells the same."""

import io
import tarfile

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.devices.dumps.picture import merge
from harness.devices.dumps.recognise import read_dump

PREFETCH, MEMORY, IO, WIDE, SIZE_ALIGN, UNSET = 0x2000, 0x200, 0x100, 0x100000, 0x40000, 0x20000000
UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"), (1, ""))


@st.composite
def bars(draw):
    """(index, start, size, is_io, is_64bit, prefetchable) of one function; start 0 is a BAR without a place."""
    made, index = [], 0
    while index < 6:
        kind = (
            draw(st.sampled_from(["none", "io", "narrow", "wide"]))
            if index < 5
            else draw(st.sampled_from(["none", "io", "narrow"]))
        )
        size = 1 << draw(st.integers(2, 8) if kind == "io" else st.integers(12, 28) if kind == "narrow" else st.integers(12, 40))
        place = draw(st.integers(1, 200))
        if kind == "io":
            made.append((index, 0x1000 + 0x100 * place, size, True, False, False))
        elif kind == "narrow":
            made.append((index, draw(st.sampled_from([0, 0x80000000 + (place << 22)])) // size * size, size, False, False, False))
        elif kind == "wide":
            made.append((index, draw(st.sampled_from([0, place << 40])), size, False, True, draw(st.booleans())))
        index += 2 if kind == "wide" else 1
    return made


def size_text(size):
    unit, letter = next((unit, letter) for unit, letter in UNITS if size % unit == 0)
    return f"{size // unit}{letter}"


def as_lspci(made):
    lines = ["3b:00.0 3D controller [0302]: NVIDIA [10de:1e78] (rev a1)"]
    for index, start, size, is_io, wide, prefetch in made:
        at = f"{start:x}" if start else "<unassigned>"
        kind = f"({'64' if wide else '32'}-bit, {'' if prefetch else 'non-'}prefetchable) "
        lines.append(
            f"\tRegion {index}: {'I/O ports' if is_io else 'Memory'} at {at} {'' if is_io else kind}[size={size_text(size)}]"
        )
    return ("\n".join(lines) + "\n").encode()


def as_sysfs(made):
    rows = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13
    for index, start, size, is_io, wide, prefetch in made:
        flags = IO if is_io else MEMORY | SIZE_ALIGN | WIDE * wide | PREFETCH * prefetch
        flags |= 0 if start else UNSET
        rows[index] = f"0x{start:016x} 0x{start + size - 1:016x} 0x{flags:016x}"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in (
            ("class", "0x030200"),
            ("vendor", "0x10de"),
            ("device", "0x1e78"),
            ("resource", "\n".join(rows) + "\n"),
        ):
            member = tarfile.TarInfo(f"sys/devices/pci0000:3a/0000:3b:00.0/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return packed.getvalue()


def as_kernel_log(made, *, is_older):
    lines = ["pci 0000:3b:00.0: [10de:1e78] type 00 class 0x030200"]
    for index, start, size, is_io, wide, prefetch in made:
        flags = f"{' 64bit' if wide else ''}{' pref' if prefetch else ''}"
        kind = "io " if is_io else "mem"
        asked, given = f"[{kind} size 0x{size:x}{flags}]", f"[{kind} 0x{start:x}-0x{start + size - 1:x}{flags}]"
        lines.append(
            f"pci 0000:3b:00.0: BAR {index}: no space for {asked}"
            if is_older
            else f"pci 0000:3b:00.0: BAR {index} {asked}: can't assign; no space"
        )
        if start:
            lines.append(
                f"pci 0000:3b:00.0: BAR {index}: assigned {given}"
                if is_older
                else f"pci 0000:3b:00.0: BAR {index} {given}: assigned"
            )
    return "".join(f"[    1.{number:06d}] {line}\n" for number, line in enumerate(lines)).encode()


def facts(data):
    (function,) = merge(read_dump("x", data)).snapshot.functions
    return [
        (bar.index, bar.start, bar.size, bar.is_io, bar.is_64bit, bar.prefetchable) if bar.assigned
        else (bar.index, 0, bar.size, bar.is_io, bar.is_64bit, bar.prefetchable)
        for bar in function.bars
    ]  # fmt: skip


@given(bars())
@settings(max_examples=120, deadline=None)
def test_every_format_tells_the_same_bars(made):
    expected = [(index, start, size, is_io, wide, prefetch) for index, start, size, is_io, wide, prefetch in made]
    assert facts(as_lspci(made)) == expected
    assert facts(as_sysfs(made)) == expected
    assert facts(as_kernel_log(made, is_older=True)) == expected
    assert facts(as_kernel_log(made, is_older=False)) == expected
