"""``/dlq``: inspect, redrive and drop messages that failed too often.

They are in a topic named after topic and group (:mod:`penstock.model.dead_letters`); their headers
tell the origin. A request redrives a limited number, so that the response does not take long.
"""

import codecs
from heapq import nsmallest
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.groups import known_group, names
from penstock.admin.guard import Guard
from penstock.admin.pages import (
    admin_page,
    admin_read_page,
    applied,
    int_parameter,
    list_limit,
    map_in_slices,
    may,
    payload_fields,
    read_body,
    require,
    text_of,
    time_of,
)
from penstock.admin.queues import is_topic
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import QueueAdmin
from penstock.limits import KIB, MIB
from penstock.model.dead_letters import PREFIX, dead_letter_topic, origin
from penstock.model.message import Message
from penstock.obs.log import get_logger
from penstock.trust.rules import Action

LETTERS_DEFAULT, LETTERS_MAX = 10, 1_000  # letters in one response
READ_BYTES_MAX = 4 * MIB  # payload bytes read for one response
PREVIEW_BYTES = 1 * KIB  # payload bytes shown of one letter
REDRIVEN_MAX = 10_000  # letters redriven by one request: about a second

_LETTER_PARAMETERS = ("topic", "group", "offset", "limit")
HEADER_PREFIX = b"dlq-"

_log = get_logger("queues")


class _RedriveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose letters to redrive, and how many at most."""

    topic: str
    group: str
    max: Annotated[int, Meta(ge=1, le=REDRIVEN_MAX)] = REDRIVEN_MAX


def routes(admin: QueueAdmin, guard: Guard) -> list[Route]:
    pages = _DeadLetterPages(admin)
    return [
        admin_read_page("/dlq", guard, admin, pages.show_all, ("after", "limit"), None),
        admin_page("/dlq", "DELETE", guard, pages.drop, ("topic", "group"), None),
        admin_read_page("/dlq/letters", guard, admin, pages.show_letters, _LETTER_PARAMETERS, None),
        admin_page("/dlq/redrive", "POST", guard, pages.redrive, action=None),
    ]


class _DeadLetterPages:
    def __init__(self, admin: QueueAdmin) -> None:
        self._admin = admin

    async def show_all(self, request: Request) -> dict[str, object]:
        after = request.query_params.get("after", "").encode()
        limit = list_limit(request)
        names = [
            name
            for name in self._admin.topics.by_name
            if name.startswith(PREFIX)
            and name > after
            and may(request, Action.MANAGE, origin(name)[0])
        ]
        counts = await map_in_slices(names, self._admin.letter_count)
        found = {name: count for name, count in zip(names, counts, strict=True) if count}
        page = nsmallest(limit, found)
        described = [_describe(name, found[name]) for name in page]
        return {"dead_letters": described, "more": len(found) > len(page)}

    async def show_letters(self, request: Request) -> dict[str, object]:
        require(request, Action.MANAGE, names(request)[0].encode())
        letters = self._letters_topic(*names(request))
        count = self._admin.letter_count(letters)
        first = self._admin.first_letter(letters)
        offset = max(int_parameter(request, "offset", first, 2**63 - 1), first)
        limit = int_parameter(request, "limit", LETTERS_DEFAULT, LETTERS_MAX)
        shown = []
        if count:
            read = self._admin.store.read_topic
            found = await run_in_threadpool(read, letters, offset, limit, READ_BYTES_MAX)
            shown = [_show(message) for message in found.messages()]
        return {"letters_topic": text_of(letters), "letters": count, "shown": shown}

    async def redrive(self, request: Request) -> dict[str, object]:
        wanted = await read_body(request, _RedriveRequest)
        require(request, Action.MANAGE, wanted.topic.encode())
        letters = self._letters_topic(wanted.topic, wanted.group)
        before = self._admin.letter_count(letters)
        topic, group = wanted.topic.encode(), wanted.group.encode()
        redriven = await applied(self._admin.redrive(topic, group, wanted.max), 409)
        left = self._admin.letter_count(letters)
        _check_moved(letters, redriven, before, left)
        _log.info("letters_redriven", topic=wanted.topic, group=wanted.group, letters=redriven)
        return {"redriven": redriven, "left": left}

    async def drop(self, request: Request) -> dict[str, object]:
        topic, group = names(request)
        require(request, Action.MANAGE, topic.encode())
        letters = self._letters_topic(topic, group)
        before = self._admin.letter_count(letters)
        dropped = await applied(self._admin.drop(topic.encode(), group.encode()))
        _check_moved(letters, dropped, before, self._admin.letter_count(letters))
        _log.info("letters_dropped", topic=topic, group=group, letters=dropped)
        return {"dropped": dropped}

    def _letters_topic(self, topic: str, group: str) -> bytes:
        """Return the topic of a group's letters; it may outlive the group and its topic."""
        letters = dead_letter_topic(topic.encode(), group.encode())
        if not is_topic(self._admin, letters):
            known_group(self._admin, topic, group)
        return letters


def _check_moved(letters: bytes, moved: int, before: int, left: int) -> None:
    if not moved and before and left >= before:
        error = f"the letters of {text_of(letters)!r} are already being redriven"
        raise RequestRefused(409, error, "try again when that is done")


def _describe(letters: bytes, count: int) -> dict[str, object]:
    topic, group = origin(letters)
    return {
        "topic": text_of(topic),
        "group": text_of(group),
        "letters_topic": text_of(letters),
        "letters": count,
    }


def _show(message: Message) -> dict[str, object]:
    headers = message.extras.headers if message.extras else ()
    known = dict(headers)
    own = [[text_of(n), text_of(v)] for n, v in headers if not n.startswith(HEADER_PREFIX)]
    return {
        "offset": message.offset,
        "time": time_of(message.time_ms),
        "topic": text_of(known.get(b"dlq-topic", b"")),
        "topic_offset": int(known.get(b"dlq-offset", b"0")),
        "attempts": int(known.get(b"dlq-attempts", b"0")),
        "reason": text_of(known.get(b"dlq-reason", b"")),
        **({"headers": own} if own else {}),
        "payload_bytes": len(message.payload),
        **_preview(message.payload),
    }


def _preview(payload: bytes) -> dict[str, str]:
    """Show the beginning of a payload, as text even if the cut is inside a character."""
    if len(payload) <= PREVIEW_BYTES:
        return payload_fields(payload)
    head = payload[:PREVIEW_BYTES]
    try:
        return {"payload": codecs.getincrementaldecoder("utf-8")().decode(head)}
    except UnicodeDecodeError:
        return payload_fields(head)
