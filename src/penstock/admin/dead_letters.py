"""``/dlq``: messages that failed as often as their group allows, looked at, sent back, dropped.

They lie in a topic of their own, whose name tells the topic and the group
(:mod:`penstock.model.dead_letters`); each letter says in its headers where it comes from.

One request sends back a limited number of letters, as an answer has its time; whoever wants all of
them asks again.
"""

import codecs
from heapq import nsmallest
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from penstock.admin.groups import known_group, names
from penstock.admin.pages import (
    RequestRefused,
    administrators_page,
    in_turns,
    kept,
    number,
    payload_fields,
    read_body,
    reading_page,
    text_of,
    time_of,
)
from penstock.admin.queues import is_topic
from penstock.limits import KIB, MIB
from penstock.model.dead_letters import PREFIX, dead_letter_topic, origin
from penstock.obs.log import get_logger

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.admin.view import QueueAdmin
    from penstock.model.message import Message


LISTED_DEFAULT, LISTED_MAX = 100, 1_000
"""Dead-letter topics in one answer."""

LETTERS_DEFAULT, LETTERS_MAX = 10, 1_000
"""Letters in one answer."""

READ_BYTES_MAX = 4 * MIB
PREVIEW_BYTES = 1 * KIB
"""Payload read for one answer, and shown of one letter."""

REDRIVEN_MAX = 10_000
"""Letters sent back by one request: a matter of a second."""

_LETTERS = ("topic", "group", "offset", "limit")
"""Parameters of the page of one group's letters."""

_HEADER_PREFIX = b"dlq-"

_log = get_logger("queues")


class _RedriveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose letters to send back, and how many of them."""

    topic: str
    group: str
    max: Annotated[int, Meta(ge=1, le=REDRIVEN_MAX)] = REDRIVEN_MAX


def routes(admin: "QueueAdmin", token: str) -> list[Route]:
    """The pages of one broker; ``token`` is the administrators', empty if there is none."""
    pages = _DeadLetterPages(admin)
    return [
        reading_page("/dlq", token, admin, pages.show_all, ("after", "limit")),
        administrators_page("/dlq", "DELETE", token, pages.drop, ("topic", "group")),
        reading_page("/dlq/letters", token, admin, pages.show_letters, _LETTERS),
        administrators_page("/dlq/redrive", "POST", token, pages.redrive),
    ]


class _DeadLetterPages:
    """Answers the requests. Whoever gets here may do everything."""

    def __init__(self, admin: "QueueAdmin") -> None:
        self._admin = admin

    async def show_all(self, request: "Request") -> dict[str, Any]:
        after = request.query_params.get("after", "").encode()
        limit = number(request, "limit", LISTED_DEFAULT, LISTED_MAX)
        names = [
            name for name in self._admin.topics.by_name if name.startswith(PREFIX) and name > after
        ]
        counts = await in_turns(names, self._admin.letter_count)
        found = {name: count for name, count in zip(names, counts, strict=True) if count}
        page = nsmallest(limit, found)
        shown = [self._describe(name, found[name]) for name in page]
        return {"dead_letters": shown, "more": len(found) > len(page)}

    def _describe(self, letters: bytes, count: int) -> dict[str, Any]:
        topic, group = origin(letters)
        return {
            "topic": text_of(topic),
            "group": text_of(group),
            "letters_topic": text_of(letters),
            "letters": count,
        }

    async def show_letters(self, request: "Request") -> dict[str, Any]:
        letters = self._letters_topic(*names(request))
        count = self._admin.letter_count(letters)
        first = self._admin.first_letter(letters)
        offset = max(number(request, "offset", first, 2**63 - 1), first)
        limit = number(request, "limit", LETTERS_DEFAULT, LETTERS_MAX)
        shown = []
        if count:
            store = self._admin.store
            found = await run_in_threadpool(
                store.read_topic, letters, offset, limit, READ_BYTES_MAX
            )
            shown = [_show(message) for message in found.messages()]
        return {"letters_topic": text_of(letters), "letters": count, "shown": shown}

    async def redrive(self, request: "Request") -> dict[str, Any]:
        wanted = await read_body(request, _RedriveRequest)
        letters = self._letters_topic(wanted.topic, wanted.group)
        before = self._admin.letter_count(letters)
        topic, group = wanted.topic.encode(), wanted.group.encode()
        redriven = await kept(self._admin.redrive(topic, group, wanted.max), 409)
        left = self._admin.letter_count(letters)
        _check_moved(letters, redriven, before, left)
        _log.info("letters_redriven", topic=wanted.topic, group=wanted.group, letters=redriven)
        return {"redriven": redriven, "left": left}

    async def drop(self, request: "Request") -> dict[str, Any]:
        topic, group = names(request)
        letters = self._letters_topic(topic, group)
        before = self._admin.letter_count(letters)
        dropped = await kept(self._admin.drop(topic.encode(), group.encode()))
        _check_moved(letters, dropped, before, self._admin.letter_count(letters))
        _log.info("letters_dropped", topic=topic, group=group, letters=dropped)
        return {"dropped": dropped}

    def _letters_topic(self, topic: str, group: str) -> bytes:
        """Return where a group's letters are; they may outlast the group and its topic."""
        letters = dead_letter_topic(topic.encode(), group.encode())
        if not is_topic(self._admin, letters):
            known_group(self._admin, topic, group)
        return letters


def _check_moved(letters: bytes, moved: int, before: int, left: int) -> None:
    """Say so if nothing happened to letters that are there: somebody else has them in hand."""
    if not moved and before and left >= before:
        raise RequestRefused(
            409,
            f"the letters of {text_of(letters)!r} are being sent back already",
            "ask again when that has ended",
        )


def _show(message: "Message") -> dict[str, Any]:
    headers = message.extras.headers if message.extras else ()
    story = dict(headers)
    own = [[text_of(n), text_of(v)] for n, v in headers if not n.startswith(_HEADER_PREFIX)]
    return {
        "offset": message.offset,
        "time": time_of(message.time_ms),
        "topic": text_of(story.get(b"dlq-topic", b"")),
        "topic_offset": int(story.get(b"dlq-offset", b"0")),
        "attempts": int(story.get(b"dlq-attempts", b"0")),
        "reason": text_of(story.get(b"dlq-reason", b"")),
        **({"headers": own} if own else {}),
        "payload_bytes": len(message.payload),
        **_preview(message.payload),
    }


def _preview(payload: bytes) -> dict[str, str]:
    """Show the beginning of a payload: as text if it is, though the cut be amid a character."""
    if len(payload) <= PREVIEW_BYTES:
        return payload_fields(payload)
    head = payload[:PREVIEW_BYTES]
    try:
        return {"payload": codecs.getincrementaldecoder("utf-8")().decode(head)}
    except UnicodeDecodeError:
        return payload_fields(head)
