"""``readers`` and ``sinks``: streams that read topics, and tables that are written to them."""

from heapq import nsmallest
from typing import Annotated

from msgspec import Meta

from penstock.admin.pages import applied, text_of
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import ReaderView
from penstock.api import attention
from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import ListQuery, Query
from penstock.api.documents.lists import Missing
from penstock.api.documents.spark import Reader, Readers, Sink, SinkForgetting, Sinks
from penstock.api.named import DryRun, moment_or_none
from penstock.api.operations import Resource, operation
from penstock.api.parts import Parts
from penstock.api.rates import Rates
from penstock.api.sight import Sight
from penstock.errors import NotLeader
from penstock.staging.sink_commits import SinkView
from penstock.store.store import Store
from penstock.trust.rules import Action

_READERS, _SINKS = "readers", "sinks"


class ReadersQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which readers."""

    topic: Annotated[str | None, Meta(description="Only readers of this topic.")] = None


class SinkQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sink to forget."""

    sink: Annotated[str, Meta(description="Its name.", max_length=1_024)]
    dry_run: DryRun = False


class Spark(Resource):
    """Spark streams, durable subscribers, and sinks."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._rates = Rates()
        self._arrivals = Rates()

    # ── readers ───────────────────────────────────────────────────────────────────────────────

    @operation("GET", "readers", None)
    async def readers(self, call: Call, query: ReadersQuery) -> Readers:
        """List streams and durable subscribers, and how far they are behind.

        The time of a commit of a Spark stream is not kept. A rate is that since the reader was last
        asked for, at least a second ago.
        """
        admin, sight = self.parts.spark_admin, Sight(call)
        after = key_of(_READERS, query.cursor, tuple[bytes, bytes, str])
        found = (
            reader
            for reader in admin.readers()
            if (after is None or _key(reader) > after)
            and query.topic in {None, text_of(reader.topic)}
            and sight.sees(reader.topic)
        )
        page = nsmallest(query.limit + 1, found, key=_key)
        more, page = page[query.limit :], page[: query.limit]
        times = await call.read(_times, self.parts.view.store, page)
        return Readers(
            items=[self._describe(r, time_ms) for r, time_ms in zip(page, times, strict=True)],
            next=cursor_of(_READERS, _key(page[-1])) if more else None,
        )

    def _describe(self, reader: ReaderView, time_ms: int) -> Reader:
        admin, key = self.parts.spark_admin, _key(reader)
        now_ms, end = admin.wall_ms(), admin.end(reader.topic)
        rate = self._rates.look(key, end - reader.lag, now_ms / 1000)
        arrivals = self._arrivals.look(key, end, now_ms / 1000)
        lag_s = max(now_ms - time_ms, 0) / 1000 if time_ms and reader.lag else None
        lag_s = 0.0 if not reader.lag else lag_s
        is_overtaken = reader.position < admin.earliest(reader.topic)
        found = attention.of_reader(lag_s=lag_s, lag=reader.lag, is_overtaken=is_overtaken)
        gain = (rate or 0.0) - (arrivals or 0.0)
        committed_ms = reader.committed_ms
        return Reader(
            name=text_of(reader.name),
            kind=reader.kind,
            topic=text_of(reader.topic),
            user=reader.user,
            attention=list(found),
            position=reader.position,
            end_offset=end,
            lag=reader.lag,
            lag_s=lag_s,
            rows_per_s=rate,
            eta_s=reader.lag / gain if gain > 0 and reader.lag else None,
            committed=moment_or_none(committed_ms),
            committed_s=max(now_ms - committed_ms, 0) / 1000 if committed_ms else None,
            overtaken=is_overtaken,
            not_kept=[] if committed_ms else ["committed"],
        )

    # ── sinks ─────────────────────────────────────────────────────────────────────────────────

    @operation("GET", "sinks", None)
    async def sinks(self, call: Call, query: ListQuery) -> Sinks:
        """List sinks: what they have published, and what is staged.

        Sinks of others are shown to those who may `monitor`. What is staged is known to the leader
        alone; if it does not answer, it is named as missing.
        """
        admin = self.parts.spark_admin
        if not admin.leads and not call.is_of_node:
            answer = await call.leader(Sinks)
            if answer is not None:
                return answer
        after = key_of(_SINKS, query.cursor, bytes)
        found = (name for name in admin.sinks() if after is None or name > after)
        views = (view for name in found if (view := self._seen(call, name)) is not None)
        page = nsmallest(query.limit + 1, views, key=lambda view: view.name)
        more, page = page[query.limit :], page[: query.limit]
        leader = self.parts.view.cluster().leader
        return Sinks(
            items=[self._sink(view) for view in page],
            next=cursor_of(_SINKS, page[-1].name) if more else None,
            incomplete=[] if admin.leads else [Missing(leader, "not_reached")],
        )

    @operation("DELETE", "sinks", None)
    async def forget(self, call: Call, query: SinkQuery) -> SinkForgetting:
        """Forget a sink and discard what it has staged; published rows stay.

        A writer that repeats an epoch under its name publishes it again. Needs `admin`, or to be
        the sink's user.
        """
        admin, name = self.parts.spark_admin, query.sink.encode()
        if not admin.leads:
            status = self.parts.view.cluster()
            raise NotLeader(status.leader, status.leader_addr)
        view = self._seen(call, name)
        if view is None:
            error = f"there is no sink {query.sink!r}"
            raise RequestRefused(404, error, "GET sinks names all")
        if view.state.user != call.principal.user or not view.state.user:
            call.require(Action.ADMIN)
        if not query.dry_run:
            await applied(admin.forget(name), 409)
        return SinkForgetting(
            sink=query.sink,
            dry_run=query.dry_run,
            epoch=view.state.epoch if view.state.epoch >= 0 else None,
            rows=view.state.messages,
            staged_parts=view.staged_parts,
            staged_bytes=view.staged_bytes,
        )

    def _seen(self, call: Call, name: bytes) -> SinkView | None:
        view = self.parts.spark_admin.sink(name)
        if view is None:
            return None
        is_own = view.state.user in {"", call.principal.user}
        return view if is_own or call.may(Action.MONITOR) else None

    def _sink(self, view: SinkView) -> Sink:
        state, now_ms = view.state, self.parts.spark_admin.wall_ms()
        committing = state.committing
        since_s = max(now_ms - state.committed_ms, 0) / 1000 if state.committed_ms else None
        found = attention.of_sink(
            staged=view.staged_parts, is_committing=committing is not None, idle_s=since_s
        )
        return Sink(
            sink=text_of(view.name),
            user=state.user,
            attention=list(found),
            epoch=state.epoch if state.epoch >= 0 else None,
            rows=state.messages,
            epoch_rows=state.epoch_messages,
            committed=moment_or_none(state.committed_ms),
            committed_s=since_s,
            committing_epoch=committing.epoch if committing else None,
            committing_rows=committing.messages if committing else 0,
            staged_parts=view.staged_parts,
            staged_bytes=view.staged_bytes,
            note=text_of(state.note),
        )


def _key(reader: ReaderView) -> tuple[bytes, bytes, str]:
    return reader.name, reader.topic, reader.kind


def _times(store: Store, readers: list[ReaderView]) -> list[int]:
    """When the message at each position was published; 0: there is none. Reads the disk."""
    times = []
    for reader in readers:
        found = store.read_topic(reader.topic, reader.position, 1, 0).messages()
        message = next(found, None) if reader.lag else None
        times.append(message.time_ms if message is not None else 0)
    return times
