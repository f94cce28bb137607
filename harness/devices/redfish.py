"""Redfish, vendor neutral: one question, one answer, refusals digested to message ids.

    answer
    ├─ below 400 ───────────── the answer; refused all the same where it is an error body or, to an act, its extended info says so
    ├─ 401, 403 ────────────── AuthRefused, at once: three wrong log-ins lock the client out
    ├─ not ready (by id) ───── an observe is asked again for a while, an act never
    └─ any other from 400 on ─ RedfishError

    resource, collection
    ├─ an object, a list of objects ─ what it says
    └─ anything else ──────────────── Unreadable: a page that cannot be read is no empty page

Status codes alone do not decide: "not ready" comes as 400, 500 and 503, and a refusal may come as 200.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.clock import Clock
from harness.errors import AuthRefused, DeviceError, RedfishError, Timeout, Unreadable
from harness.ports import Effect, HttpAnswer, HttpAsks, HttpQuestion, Json

ROOT = "/redfish/v1"

NOT_READY = frozenset({"SWC0700", "SYS518", "RAC0508", "LC060"})
"""Messages that mean "ask again later", whatever the status.

Dell iDRAC9: SWC0700 came as HTTP 400 on FC640, iDRAC 4.00 (github.com/quadsproject/badfish/issues/129); SYS518 as 500 and 503
(openstack/sushy); RAC0508 and LC060 while the Lifecycle Controller starts (github.com/dell/iDRAC-Redfish-Scripting/issues/116).
"""

PATIENCE = 120.0
"""Seconds for which a read that is answered "not ready" is asked again; Dell's text says "a few minutes"."""

PAUSE = 5.0
"""Seconds between two such questions."""

MOST_PAGES = 1000
"""Pages that a collection may have: an iDRAC's Lifecycle log, its longest one, has fifty entries a page and stays far below."""


@dataclass(frozen=True)
class Message:
    """One entry of ``@Message.ExtendedInfo``. ``id`` is as sent (``IDRAC.2.8.SYS011``), texts are never matched."""

    id: str
    text: str = ""
    severity: str = ""
    arguments: tuple[str, ...] = ()
    related: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """The id without registry and version, the only part that stays the same from firmware to firmware."""
        return suffix(self.id)

    @property
    def is_refusal(self) -> bool:
        """True where the service says that it did not do as asked."""
        return self.severity in ("Warning", "Critical")


def suffix(message_id: object) -> str:
    """``PR19`` of ``IDRAC.2.9.PR19`` and of ``PR19``; empty for anything that is no text."""
    return message_id.rpartition(".")[2] if isinstance(message_id, str) else ""


def messages(body: Json) -> tuple[Message, ...]:
    """The extended info of a body, whichever of the known shapes it has; empty for any other body.

    It stands below ``error`` or at the top, as a list or as a single object, or beside a property it is about.
    """
    if not isinstance(body, Mapping):
        return ()
    found: list[Message] = []
    for table in (body.get("error"), body):
        if isinstance(table, Mapping):
            for key, value in table.items():
                if isinstance(key, str) and key.endswith("@Message.ExtendedInfo"):
                    found += [_message(entry) for entry in (value if isinstance(value, list) else [value])]
    return tuple(message for message in found if message.id or message.text)


def explain(body: Json) -> str:
    """One line of what a body says went wrong, for people."""
    texts = [_told(message) for message in messages(body) if message.text]
    if texts:
        return "; ".join(texts)
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        return _error_text(body["error"].get("message"))
    return " ".join(body.split())[:200] if isinstance(body, str) else ""


def _told(message: Message) -> str:
    """The text of a message, and the properties it is about where the text does not name them (SYS409 says "the object")."""
    about = (pointer.rpartition("/")[2] for pointer in message.related)
    unnamed = [name for name in dict.fromkeys(about) if name and name not in message.text]
    return f"{message.text} [{', '.join(unnamed)}]" if unnamed else message.text


def dig(body: Json, *steps: str | int) -> Json | None:
    """The value at ``steps`` of nested objects and lists, or None where the way ends early."""
    for step in steps:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def text(body: Json, *steps: str | int) -> str:
    """The text at ``steps``, empty where there is none or null."""
    value = dig(body, *steps)
    return value if isinstance(value, str) else ""


def link(body: Json, *steps: str | int) -> str:
    """The ``@odata.id`` at ``steps``, empty where there is none."""
    return text(body, *steps, "@odata.id")


class Redfish:
    """A Redfish service on one lane. ``refusals`` counts the reads that were answered "not ready" and asked again."""

    def __init__(self, asks: HttpAsks, clock: Clock) -> None:
        self._asks = asks
        self.clock = clock
        self.refusals = 0

    def ask(self, question: HttpQuestion) -> HttpAnswer:
        """Ask and return the answer, headers and all.

        Raises RedfishError for a refusal, AuthRefused for 401 and 403, and what the lane raises. An observe that is answered
        "not ready" is asked again for PATIENCE seconds; an act is asked exactly once.
        """
        answer = self._asks.ask(question)
        if question.effect is Effect.OBSERVE and _is_not_ready(answer):
            answer = self._ask_again(question)
        return _accepted(question, answer)

    def read(self, path: str) -> HttpAnswer:
        """The answer with the resource at ``path``. Raises as ``ask``, and Unreadable where that is no JSON object with content."""
        if not is_place(path):
            raise Unreadable(f"{path!r} is no place on this service")
        return readable(HttpQuestion.observe("GET", path).key, self.ask(HttpQuestion.observe("GET", path)))

    def get(self, path: str) -> Json:
        """The resource at ``path``. Raises as ``read``."""
        return self.read(path).body

    def observe_post(self, path: str, body: Json | None = None, *, timeout: float = 60.0) -> HttpAnswer:
        """A POST that only reads. Raises as ``read``."""
        question = HttpQuestion.observe("POST", path, {} if body is None else body, timeout=timeout)
        return readable(question.key, self.ask(question))

    def act(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        volatile: tuple[str, ...] = (),
        timeout: float = 60.0,
    ) -> HttpAnswer:
        """Change something, asking exactly once. Raises as ``ask``, also for a refusal that comes with a 2xx status."""
        return self.ask(HttpQuestion.act(method, path, body, volatile=volatile, timeout=timeout))

    def members(self, path: str) -> Iterator[Json]:
        """The members of a collection in its own order, page after page: whole ones where it is expanded, else links.

        Raises as ``read``, and Unreadable for a page without a list of objects, or pages that lead in a circle or never end.
        """
        for page in self.pages(path):
            yield from page["Members"]

    def pages(self, path: str) -> Iterator[Mapping[str, Json]]:
        """The pages of a collection, each with its ``Members``. Raises as ``members``."""
        seen: set[str] = set()
        while path:
            if path in seen or len(seen) >= MOST_PAGES:
                raise Unreadable(f"{path}: the pages of this collection lead {'in a circle' if path in seen else 'on for ever'}")
            seen.add(path)
            page = self.get(path)
            members, onward = page.get("Members"), page.get("Members@odata.nextLink")
            if not isinstance(members, list) or not all(isinstance(member, Mapping) for member in members):
                raise Unreadable(f"{path}: the answer has no list of Members, so what is in it cannot be told")
            if not isinstance(onward, str | None):
                raise Unreadable(f"{path}: its nextLink is {onward!r}, so whether there is more cannot be told")
            yield page
            path = onward or ""

    def _ask_again(self, question: HttpQuestion) -> HttpAnswer:
        def look() -> HttpAnswer:
            self.refusals += 1
            return self._asks.ask(question)

        self.clock.sleep(PAUSE)
        try:
            return self.clock.until(
                look,
                lambda answer: not _is_not_ready(answer),
                what=f"{question.key} to be ready",
                every=PAUSE,
                within=PATIENCE,
            )
        except Timeout as timeout:
            if isinstance(timeout.last, HttpAnswer):
                return timeout.last
            raise


def readable(asked: str, answer: HttpAnswer) -> HttpAnswer:
    """The answer, whose body is an object that says something. Raises Unreadable for any other."""
    if not isinstance(answer.body, Mapping) or not answer.body:
        seen = "nothing" if not answer.body else "text that is no JSON" if isinstance(answer.body, str) else "no JSON object"
        raise Unreadable(f"{asked}: HTTP {answer.status} with {seen}, so what it should say cannot be told")
    return answer


def table(asked: str, body: Json, *steps: str | int) -> Mapping[str, Json]:
    """The object at ``steps``, which may be empty. Raises Unreadable where there is none: nothing listed is not nothing there."""
    found = dig(body, *steps)
    if not isinstance(found, Mapping):
        raise Unreadable(f"{asked}: the answer has no object {'.'.join(map(str, steps))}, so what is in it cannot be told")
    return found


def word(asked: str, body: Json, *steps: str | int) -> str:
    """The text at ``steps``. Raises Unreadable where there is none."""
    found = text(body, *steps)
    if not found:
        raise Unreadable(f"{asked}: the answer does not tell {'.'.join(map(str, steps))}")
    return found


def is_place(path: str) -> bool:
    """True for a path on this service; a lane refuses any other as its caller's mistake, and an answer is nobody's mistake here."""
    return path.startswith("/") and "//" not in path


def follow(body: Json, where: str, *steps: str | int) -> str:
    """The link at ``steps`` of the resource ``where``. Raises DeviceError, naming both, where there is none."""
    found = link(body, *steps)
    if not found:
        raise DeviceError(f"{where} has no link {'.'.join(str(step) for step in steps)}")
    if not is_place(found):
        raise Unreadable(f"{where}: the link {'.'.join(str(step) for step in steps)} leads to {found!r}, no place on this service")
    return found


def _message(entry: Json) -> Message:
    if not isinstance(entry, Mapping):
        return Message("", entry if isinstance(entry, str) else "")
    arguments = entry.get("MessageArgs")
    related = entry.get("RelatedProperties")
    return Message(
        text(entry, "MessageId"),
        text(entry, "Message"),
        text(entry, "MessageSeverity") or text(entry, "Severity"),
        tuple(str(argument) for argument in arguments) if isinstance(arguments, list) else (),
        tuple(str(name) for name in related) if isinstance(related, list) else (),
    )


def _error_text(message: Json) -> str:
    """Dell iDRAC8 (2.41): ``error.message`` is an object with ``lang`` and ``value``; everybody else sends a text.

    Source: github.com/dell/iDRAC-Redfish-Scripting/issues/7.
    """
    return message if isinstance(message, str) else text(message, "value")


def _is_not_ready(answer: HttpAnswer) -> bool:
    """Not ready by id, or a 503 that says nothing at all; a 503 with another id (sessions used up) is an answer."""
    if answer.status < 400 and not _is_error(answer.body):
        return False
    said = messages(answer.body)
    return any(message.suffix in NOT_READY for message in said) or (answer.status == 503 and not said)


def _is_error(body: Json) -> bool:
    """An error body, whatever its status: no resource has a property of that name beside Redfish's own."""
    return isinstance(body, Mapping) and isinstance(body.get("error"), Mapping)


def _accepted(question: HttpQuestion, answer: HttpAnswer) -> HttpAnswer:
    said = messages(answer.body)
    ids = [message.id for message in said if message.id]
    if answer.status in (401, 403):
        raise AuthRefused(
            f"{question.key}: HTTP {answer.status} ({', '.join(ids) or 'no MessageId'}): {explain(answer.body) or 'refused'}"
        )
    # HTTP 200 with the extended info of a refusal: iDRAC9, github.com/ansible-collections/community.general/issues/5091
    refused = _is_error(answer.body) or (question.effect is Effect.ACT and any(message.is_refusal for message in said))
    if answer.status >= 400 or refused:
        raise RedfishError(question.key, answer.status, ids, explain(answer.body))
    return answer
