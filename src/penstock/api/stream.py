"""``stream``: what happens, as server-sent events, for as long as somebody reads.

A stream has **sources**, those that ``of`` names. Once a second each is read, and what is new is
written. A reader that is slow is not read for meanwhile, so nothing piles up for it: it harms
nobody, and is cut if it takes nothing for half a minute (``net/http_streams.py``).

To add a source, write a subclass of :class:`Source` and list it in ``SOURCES`` of
:mod:`penstock.api.resources`. ``open`` is called once for each stream and returns a :class:`Feed`,
whose ``read`` is awaited each second::

    class ClusterSource(Source):
        name = "cluster"
        action = Action.MONITOR

        def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
            return ClusterFeed(self.parts)

Every source has a **position** in what it tells. The id of an event is made of all of them, so a
stream that comes back with ``Last-Event-ID`` goes on where it was, as far as sources remember.

A stream ends when what it was admitted by ends: the login, the user, their rights.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, NamedTuple, Protocol

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.admin.guard import caller_of, origin_of
from penstock.api.call import Call
from penstock.api.documents.common import Query
from penstock.api.documents.stream import StreamEnded, StreamFailed, StreamStarted
from penstock.api.operations import Resource, operation
from penstock.api.parts import Parts
from penstock.api.problems import Problem, describe, refusal_of
from penstock.errors import PenstockError
from penstock.net.http_streams import STREAM
from penstock.trust.rules import Action

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15
LOGIN_STREAMS_MAX = 4  # browsers allow six connections to a host, and pages need some of them
TOPICS_MAX = 200  # whose values one stream shows: those in view
RETRY_S = 5
_HEADERS = {"cache-control": "no-store", "connection": "close", "x-accel-buffering": "no"}


class StreamQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to tell about."""

    of: Annotated[
        list[str],
        Meta(description="Sources, repeated or separated by commas.", min_length=1, max_length=16),
    ]
    topic: Annotated[
        list[str],
        Meta(description="Of the source `topics`: whose values.", max_length=TOPICS_MAX),
    ] = msgspec.field(default_factory=list)
    filter: Annotated[
        str, Meta(description="Of the source `tail`: which topics, as an MQTT filter.")
    ] = ""
    after: Annotated[
        str,
        Meta(
            description="The id of the last event seen, as the header `Last-Event-ID`.",
            max_length=4_096,
        ),
    ] = ""


class StreamEvent(NamedTuple):
    """``data`` is JSON on one line."""

    name: str
    data: bytes


class Feed(Protocol):
    """What one source tells one stream."""

    @property
    def position(self) -> str: ...  # after what was read so far; empty: it has none

    @property
    def resumed(self) -> bool: ...  # whether nothing is missing since it was opened at a position

    async def read(self) -> Sequence[StreamEvent]:
        """What is new since the last call, at most about 256 KiB. Called about once a second."""

    def close(self) -> None: ...


class Source:
    """One kind of news. Subclasses are made once for the broker."""

    name: ClassVar[str]
    action: ClassVar[Action | None] = Action.MONITOR  # None: ``open`` judges

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
        """Begin; ``position``: where a former stream ended. May refuse with a Problem."""
        raise NotImplementedError


class Streams:
    """Who has how many."""

    def __init__(self) -> None:
        self._by_login: Counter[object] = Counter()

    def enter(self, login: object) -> None:
        if self._by_login[login] >= LOGIN_STREAMS_MAX:
            raise Problem(
                429,
                "too_many_streams",
                f"this login has {LOGIN_STREAMS_MAX} streams already",
                "close another page, or ask for the values instead",
                headers={"retry-after": str(RETRY_S)},
            )
        self._by_login[login] += 1

    def leave(self, login: object) -> None:
        self._by_login[login] -= 1
        if not self._by_login[login]:
            del self._by_login[login]


class StreamPages(Resource):
    """Streams of events."""

    sources: ClassVar[tuple[type[Source], ...]] = ()

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sources = {kind.name: kind(parts) for kind in self.sources}
        self._streams = Streams()

    @operation("GET", "stream", None, media_type=MEDIA_TYPE)
    async def stream(self, call: Call, query: StreamQuery) -> Response:
        """Stream what happens as server-sent events, until either side ends it.

        The first event is `started`, the last `ended`, if the broker ends the stream. A source that
        fails says `failed`. At least every 15 seconds there is a line. A login may have four
        streams, then the answer is 429; a reader that takes nothing for 30 seconds is cut.
        """
        named = [name for text in query.of for name in text.split(",") if name]
        opened = self._open(call, query, list(dict.fromkeys(named)))
        login = _login(call)
        try:
            self._streams.enter(login)
            try:
                self._enter_lane(call)
            except HTTPException:
                self._streams.leave(login)
                raise
        except HTTPException:
            _close(opened)
            raise
        return EventStream(call, opened, self.parts, lambda: self._streams.leave(login))

    def _open(self, call: Call, query: StreamQuery, names: list[str]) -> dict[str, Feed]:
        unknown = [name for name in names if name not in self._sources]
        if unknown or not names:
            known = ", ".join(self._sources)
            detail = f"no source {unknown[0]}" if unknown else "no source is named"
            raise Problem(400, "unknown_source", detail, f"sources are {known}")
        for name in names:
            action = self._sources[name].action
            if action is not None:
                call.require(action)
        last = query.after or call.request.headers.get("last-event-id", "")
        positions = _positions(last)
        opened: dict[str, Feed] = {}
        try:
            for name in names:
                opened[name] = self._sources[name].open(call, query, positions.get(name))
        except BaseException:
            _close(opened)
            raise
        return opened

    def _enter_lane(self, call: Call) -> None:
        begin = call.request.scope[STREAM]
        if not begin():
            raise Problem(
                503,
                "too_many_streams",
                "as many streams as the broker serves are open",
                "ask for the values instead, or try again later",
                headers={"retry-after": str(RETRY_S)},
            )


def _close(opened: Mapping[str, Feed]) -> None:
    for feed in opened.values():
        feed.close()


def _login(call: Call) -> object:
    principal = call.principal
    return caller_of(call.request).session or principal.user or origin_of(call.request).host


class EventStream(Response):
    """The answer that does not end."""

    def __init__(
        self, call: Call, feeds: dict[str, Feed], parts: Parts, on_end: Callable[[], None]
    ) -> None:
        super().__init__(None, 200, _HEADERS, MEDIA_TYPE)
        del self.headers["content-length"]
        self._call = call
        self._feeds = feeds
        self._parts = parts
        self._on_end = on_end
        self._quiet_ticks = 0

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self._gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._tell(send)
        finally:
            self._gone.cancel()
            _close(self._feeds)
            self._on_end()

    async def _tell(self, send: Send) -> None:
        resumed = all(feed.resumed for feed in self._feeds.values())
        started = StreamStarted(of=[*self._feeds], resumed=resumed, heartbeat_s=HEARTBEAT_S)
        chunk = f"retry: {RETRY_S * 1000}\n".encode() + self._text("started", started)
        while not self._gone.done():
            ended = await self._ended()
            chunk += self._text("ended", ended) if ended else await self._news()
            if chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            chunk = b""
            await self._next_tick()

    async def _next_tick(self) -> None:
        tick = self._parts.beat.wait()
        try:
            await asyncio.wait({tick, self._gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tick.cancel()

    async def _ended(self) -> StreamEnded | None:
        if self._parts.beat.is_closing:
            return StreamEnded(reason="server_shutdown", text="the broker is stopping")
        try:
            await self._parts.guard.still(self._call.request)
        except HTTPException as refused:
            return StreamEnded(reason="credentials_revoked", text=refused.detail)
        return None

    async def _news(self) -> bytes:
        parts: list[bytes] = []
        for name, feed in list(self._feeds.items()):
            try:
                events = await feed.read()
            except (PenstockError, HTTPException) as error:
                events = [self._failed(name, error)]
                self._feeds.pop(name).close()
            for event in events:
                parts.append(b"event: %b\ndata: %b\n" % (event.name.encode(), event.data))
                parts.append(b"\n")
        if not parts:
            self._quiet_ticks += 1
            if self._quiet_ticks < HEARTBEAT_S:
                return b""
            parts = [b": nothing new\n\n"]
        else:
            parts.insert(-1, b"id: %b\n" % self._id())
        self._quiet_ticks = 0
        return b"".join(parts)

    def _failed(self, name: str, error: PenstockError | HTTPException) -> StreamEvent:
        refused = refusal_of(error) if isinstance(error, PenstockError) else error
        problem = describe(refused, self._call.request.url.path)
        return StreamEvent("failed", msgspec.json.encode(StreamFailed(of=name, problem=problem)))

    def _id(self) -> bytes:
        return _id_of({name: feed.position for name, feed in self._feeds.items()})

    @staticmethod
    def _text(name: str, document: msgspec.Struct) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(document))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _id_of(positions: dict[str, str]) -> bytes:
    """One line without spaces, as ids must be."""
    kept = {name: position for name, position in positions.items() if position}
    return base64.urlsafe_b64encode(msgspec.json.encode(kept)).rstrip(b"=")


def _positions(text: str) -> dict[str, str]:
    """Of an id that was made up: none; the stream says that it did not resume."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        return msgspec.json.decode(data, type=dict[str, str])
    except (ValueError, msgspec.DecodeError):
        return {}
