"""What passes between the shell on a console and us, so that an answer is exact or known not to be.

A console mixes: kernel messages fall into the middle of a line, a byte is lost at full speed, somebody writes to all terminals.
So nothing that matters travels as plain text. Beyond the console runs a loop that knows a dozen verbs and nothing else (no
``eval``: a mangled request can do nothing), and both ways are checked:

    to it     VERB NUMBER ARGUMENTS...\\n                  a piece of a file carries its offset and its SHA-256
    from it   @tag@NUMBER<
              base64, lines of 76 characters: the request as it arrived, then the answer
              @tag@NUMBER>SHA-256 of what was encoded

Base64 because busybox and coreutils both have it (od and hexdump would double the bytes, uuencode is rarely there) and because
its letters leave "[", "@", "<", ">", blanks and control characters to everybody else: a kernel line ("[", up to its end) is cut
out wherever it fell, and our line is whole again. SHA-256 because both have ``sha256sum``. What is damaged is asked for again,
with a new number, out of a file: a command is never run twice.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

UNIT = 128
"""Bytes; a file is read in multiples of it, so the smallest piece survives a line that loses one byte in a hundred."""

_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[()#][0-9A-Za-z]|[=>78cDEHMNOZ])"
)
_NOISE = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_FOREIGN = re.compile(rb"(?:<\d{1,3}>)?\[[^\n]{0,4096}\n")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{0,4096}={0,2}")
_KEPT = 1 << 16


def plain(raw: bytes) -> bytes:
    """The bytes without escape sequences, carriage returns and other control characters but tab and newline."""
    return _NOISE.sub(b"", _ESCAPES.sub(b"", raw))


def own(raw: bytes) -> bytes:
    """The bytes without what the kernel and the service manager said in between: from a bracket to the end of its line."""
    return _FOREIGN.sub(b"", plain(raw))


@dataclass(frozen=True)
class Reply:
    """A frame that came: which request was heard there (verb and three arguments), and the answer to it.

    ``request`` is empty where the frame was damaged.
    """

    number: int
    request: str = ""
    payload: bytes = b""


class Frames:
    """Looks for the replies of one session in what comes; keeps 64 KiB at most. ``aside`` is what others said in between."""

    def __init__(self, tag: str) -> None:
        mark = re.escape(tag.encode())
        self.aside = bytearray()
        self._mark = tag.encode()
        self._frame = re.compile(rb"%s(\d{1,9})<\n((?:(?!%s\d).)*)%s\1>([0-9a-f]{64})\n" % (mark, mark, mark), re.DOTALL)
        self._end = re.compile(rb"%s(\d{1,9})>[0-9a-f]{64}\n" % mark)
        self._raw = bytearray()

    @property
    def raw(self) -> bytes:
        """What has come since the last reply."""
        return bytes(self._raw)

    def feed(self, data: bytes) -> list[Reply]:
        """The replies that ``data`` completes. One whose end came without its beginning is damaged."""
        self._raw += data
        if b"\n" not in data:
            return []
        text = own(bytes(self._raw))
        ends = list(self._end.finditer(text))
        if not ends:
            if len(self._raw) > _KEPT:
                self.drop()
            return []
        whole = {match.end(): match for match in self._frame.finditer(text)}
        self.drop()
        return [_reply(int(end[1]), whole.get(end.end())) for end in ends]

    def drop(self) -> None:
        """Give up what has come: what others said of it is put aside."""
        self.aside += self._foreign(bytes(self._raw))
        self._raw.clear()

    def _foreign(self, raw: bytes) -> bytes:
        """Lines that are neither a reply's nor empty."""
        lines = []
        for line in plain(raw).split(b"\n"):
            ours, bracket, others = line.partition(b"[")
            if bracket:
                lines.append(bracket + others)
            elif ours and self._mark not in ours and not _BASE64.fullmatch(ours):
                lines.append(ours)
        return b"".join(line + b"\r\n" for line in lines)


def _reply(number: int, frame: re.Match[bytes] | None) -> Reply:
    decoded = None if frame is None else _decoded(frame[2], frame[3])
    if decoded is None:
        return Reply(number)
    request, _, payload = decoded.partition(b"\n")
    return Reply(number, request.decode("ascii", "replace").strip(), payload)


def _decoded(body: bytes, digest: bytes) -> bytes | None:
    """The payload where it is what was sent. Lines with other characters than base64's are somebody else's."""
    coded = b"".join(line for line in body.split(b"\n") if _BASE64.fullmatch(line))
    try:
        payload = base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return payload if sha256(payload).encode() == digest else None


def sha256(data: bytes) -> str:
    """The checksum, 64 hex digits, as ``sha256sum`` prints it."""
    return hashlib.sha256(data).hexdigest()


LOOP = r"""
T=$1 D=$2 G=$3 J= P=
end() {
  for p in "$D"/*.pid; do
    [ -f "${p%pid}st" ] || kill -9 "$P$(cat "$p")"
  done 2>/dev/null
  rm -rf "$D"
  [ -z "$G" ] || stty "$G"
}
trap end 0
trap 'exit 1' 1 2 15
if command -v setsid >/dev/null; then J=setsid P=-; fi
sum() { s=$(sha256sum <"$1"); s=${s%% *}; }
size() { z=0; [ ! -f "$1" ] || z=$(($(wc -c <"$1"))); }
say() {
  { echo "$v $a $b $c"; cat "$2"; } >"$D/m"
  sum "$D/m"
  printf '\n%s%s<\n' "$T" "$1"; base64 <"$D/m"; printf '%s%s>%s\n' "$T" "$1" "$s"
}
tell() { echo "$2" >"$D/t"; say "$1" "$D/t"; }
run() {
  $J sh "$D/$1.cmd" <"$D/$1.in" >"$D/$1.out" 2>"$D/$1.err"
  echo $? >"$D/$1.s"
  mv "$D/$1.s" "$D/$1.st"
}
while read -r v n a b c d; do
  case $n$a in ''|*[!a-z0-9.]*) continue;; esac
  f=$D/$a
  case $v in
  p) tell "$n" ok;;
  u) printf %s "$d" | base64 -d >"$D/p" 2>/dev/null
     sum "$D/p"; size "$f"
     if [ "$s $z" = "$c $b" ]; then cat "$D/p" >>"$f"; size "$f"; fi
     tell "$n" "$z";;
  r) [ -f "$f.in" ] || : >"$f.in"
     sum "$f.cmd"; x=$s; sum "$f.in"
     if [ "$x $s" != "$b $c" ]; then tell "$n" bad
     else
       if mkdir "$f.run"; then run "$a" </dev/null >/dev/null 2>&1 & fi
       tell "$n" started
     fi;;
  q) x=none
     if [ -d "$f.run" ]; then x=-; fi
     if [ -f "$f.st" ]; then x=$(cat "$f.st"); fi
     size "$f.out"; y=$z; size "$f.err"
     tell "$n" "$x $y $z";;
  z) if [ ! -f "$f.z$b" ]; then tail -c +$((b+1)) "$f" >"$D/r"; mv "$D/r" "$f.z$b"; fi
     sum "$f.z$b"; x=$s; size "$f.z$b"; y=$z z=-
     if gzip -c "$f.z$b" >"$f.z$b.gz"; then size "$f.z$b.gz"; fi 2>/dev/null
     tell "$n" "$x $y $z";;
  b) : >"$D/t"
     dd if="$f" of="$D/t" bs=128 skip="$b" count="$c" 2>/dev/null
     say "$n" "$D/t";;
  k) kill -9 "$P$(cat "$f.pid")" 2>/dev/null
     tell "$n" ok;;
  d) rm -rf "$f".*
     tell "$n" ok;;
  x) tell "$n" bye; exit 0;;
  esac
done 2>/dev/null
"""
"""The loop beyond the console, POSIX shell for dash, bash and busybox: ping, upload, run, query, pack, block, kill, drop, exit.

Its files are in a folder of its own that goes with it. A job's command runs once (``mkdir`` is the guard), in a session of its
own where there is ``setsid``, so that all of it can be killed without a controlling terminal.
"""


def loader(tag: str, digest: str) -> bytes:
    """The one line typed at the prompt: it takes the loop in as base64 up to a full stop, checks it and runs it.

    The tag is in two halves there, so that the line's own echo is no answer.
    """
    head, tail = tag[:4], tag[4:]
    say = f'printf "\\n%s%s%s\\n" "{head}" "{tail}"'
    return (
        "sh -c 'G=$(stty -g 2>/dev/null);stty -echo icanon icrnl isig 2>/dev/null;"
        "for d in /dev/shm /run /tmp .;do D=$(mktemp -d $d/bh.XXXXXX 2>/dev/null)&&break;done;"
        'trap "rm -rf $D" 0;trap "exit 1" 1 2 15;'
        f'{say} go;while read -r l&&[ "$l" != . ];do echo "$l";done|base64 -d >"$D/sh";'
        f's=$(sha256sum <"$D/sh");if [ "${{s%% *}}" = {digest} ];then sh "$D/sh" "{head}""{tail}" "$D" "$G";'
        f"else {say} bad;stty $G;fi'\n"
    ).encode()


def loop_lines() -> list[bytes]:
    """The loop as the loader wants it: base64 lines, then a full stop."""
    coded = base64.encodebytes(LOOP.encode()).split()
    return [line + b"\n" for line in (*coded, b".")]
