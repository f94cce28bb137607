from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.live.remote_shell import Frame, framed, killing

MARK = "0123456789abcdef"
SHOW = "import sys; sys.stdout.write(ascii(sys.argv[1:]))"
SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "mksh") if shutil.which(shell)]
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), max_size=4)


def run(line: str, shell: str = "sh") -> tuple[int, bytes, bytes]:
    done = subprocess.run([shell, "-c", line], capture_output=True, check=False, timeout=20)
    return done.returncode, done.stdout, done.stderr


def read(stream: bytes, size: int = 1 << 20) -> tuple[Frame, bytes]:
    frame = Frame(MARK)
    own = b"".join(frame.take(stream[at : at + size]) for at in range(0, len(stream), size)) + frame.take(b"")
    return frame, own


@pytest.mark.parametrize("shell", SHELLS)
def test_awkward_words_pass_every_shell_that_is_here(shell):
    words = ["", "-n", "--", "it's", '"', "$HOME `id`", "a\nb\n", "\\n\\", "!!", "%s %b", "*?[a]~#&|;<>()", "ü🙂", "\x1e\x7f"]
    status, out, err = run(framed([sys.executable, "-c", SHOW, *words], MARK), shell)
    assert (status, read(out)[1].decode(), read(err)[1]) == (0, ascii(words), b"")


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=25, deadline=None)
@given(words=WORDS)
@example(words=["'\\''", "\\0101", "\n"])
def test_any_words_arrive_as_they_are(shell, words):
    _, out, _ = run(framed(["printf", "%s\\0", *words], MARK), shell)
    assert read(out)[1].decode() == "".join(f"{word}\0" for word in words or [""])


@pytest.mark.parametrize("status", [0, 1, 127, 255])
def test_the_marks_bear_the_group_and_the_status_on_both_streams(status):
    ended, out, err = run(framed(["sh", "-c", f"echo o; echo e >&2; exit {status}"], MARK))
    (output, said), (errors, complained) = read(out), read(err)
    assert (ended, output.status, errors.status) == (status,) * 3
    assert output.group == errors.group
    assert (said, complained) == (b"o\n", b"e\n")


def test_a_group_is_killed_with_what_it_started():
    line = framed(["sh", "-c", "sleep 60 & echo started; wait"], MARK)
    process = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    first = process.stdout.readline()
    assert process.stdout.readline() == b"started\n"
    assert run(killing(read(first)[0].group))[0] == 0
    assert process.communicate(timeout=5)[0] == b""  # the sleeper held the pipe open too
    assert process.returncode == -9


@given(
    noise=st.binary(max_size=30),
    own=st.lists(
        st.sampled_from([b"\x1e", b"\x1e0123", MARK.encode(), b"\n", b"text", b"\xff", b"\x1e" + MARK.encode()]), max_size=8
    ),
    size=st.integers(1, 40),
)
def test_a_frame_read_in_any_pieces_gives_what_is_between_the_marks(noise, own, size):
    content = b"".join(own)
    stream = noise + b"\x1e" + MARK.encode() + b" 77\n" + content + b"\x1e" + MARK.encode() + b" 3\n"
    frame, said = read(stream, size)
    assert (frame.group, frame.status, said, bytes(frame.noise)) == (77, 3, content, noise)


@given(cut=st.integers(0, 60), size=st.integers(1, 20))
def test_a_stream_that_breaks_off_is_never_whole(cut, size):
    stream = b"hello\x1e" + MARK.encode() + b" 77\nsome output\x1e" + MARK.encode() + b" 3\n"
    frame, said = read(stream[: min(cut, len(stream) - 1)], size)
    assert frame.status is None
    assert b"some output".startswith(said.partition(b"\x1e")[0])


def test_output_is_given_as_soon_as_it_cannot_be_a_mark():
    frame = Frame(MARK)
    assert frame.take(b"\x1e" + MARK.encode() + b" 7\nline\n") == b"line\n"
    assert frame.take(b"half\x1e01") == b"half"
    assert frame.take(b"9") == b"\x1e019"
