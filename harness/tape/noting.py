"""From an answer to what a tape keeps of it: what was printed when, and nothing secret. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from harness.ports import CommandAnswer, HttpAnswer
from harness.tape.events import CommandReply, Failure, HttpReply, Lines, Reply, lines_of, seconds
from harness.tape.redact import Redactor


def reply_of(answer: HttpAnswer | CommandAnswer, heard: Lines | None) -> Reply:
    """An answer as it is noted, not redacted yet; ``heard`` are the lines with their times, each on its own."""
    if isinstance(answer, HttpAnswer):
        return HttpReply(answer.status, answer.headers, answer.body)
    lines = None if heard is None else _counted(heard, lines_of(answer.stdout))
    return CommandReply(answer.status, answer.stdout, answer.stderr, lines)


def _counted(heard: Lines, printed: list[str]) -> Lines:
    """Lines as counts by time where they are those of stdout, else as they are."""
    if [text for _, text in heard] != printed:
        return heard
    moments = [seconds(at) for at, _ in heard]
    return tuple((moment, len(list(same))) for moment, same in groupby(moments))


def redacted(reply: Reply, redactor: Redactor) -> Reply:
    """The reply without its secrets, and of its headers only those on the list."""
    match reply:
        case HttpReply(status, headers, body):
            return HttpReply(status, redactor.headers(headers), redactor.json(body))
        case CommandReply(status, stdout, stderr, lines):
            told = lines and tuple((at, redactor.text(what) if isinstance(what, str) else what) for at, what in lines)
            return CommandReply(status, redactor.text(str(stdout)), redactor.text(str(stderr)), told)
        case Failure():
            return redacted_failure(reply, redactor)


def redacted_failure(failure: Failure, redactor: Redactor) -> Failure:
    """The failure without its secrets."""
    return replace(failure, text=redactor.text(failure.text), last=redactor.json(failure.last))
