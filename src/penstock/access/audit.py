"""The audit log: who changed what, as messages of ``$audit/access``.

A record is published in the same commit as the change that it is about, so neither exists without
the other. It tells time, node, door, user, address, and each row before and after. **Secrets are
not in it**: of passwords and secrets it says that there are some, or that they changed.

Each record has the hash of the one before it that the same node wrote (``previous``), so a record
cannot be taken out or altered unseen. Nodes have chains of their own, because each writes without
asking the others.

Changes of topics and groups by clients of the Redis and the queue protocol are recorded once there
are users; see ``client_changes``. Topics and groups that come into being by use are not.

Failed logins are summed up: one record per user and address and minute. Guessers choose both, so
at most ``SUMMARIES_MAX`` are written a minute and the rest is counted in one record. The name is
recorded only if there is such a user: people type passwords into the wrong field.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from hashlib import sha256
from typing import NamedTuple

import msgspec

from penstock.access.client_changes import NAME_BYTES_MAX, ClientChange, ClientChanges
from penstock.commit.pipeline import Pipeline
from penstock.errors import PenstockError
from penstock.obs.printable import printable
from penstock.store.store import Store, TopicRange
from penstock.trust.book import AccessBook, Change
from penstock.trust.keys import Key
from penstock.trust.principal import ANYONE, Principal
from penstock.trust.rows import Row, User, decode_row
from penstock.trust.touched import AUDIT_PREFIX

TOPIC = AUDIT_PREFIX + b"access"
SUMMARY_MS = 60_000
SUMMARIES_MAX = 100  # written a minute by one node; the rest is one record
SUMMED_MAX = 10_000  # users and addresses that are told apart in a minute
LOOKED_BACK_MAX = 1_000  # records searched for the last one of this node
BYTES_AT_ONCE = 1 << 20

_HIDDEN = frozenset({"password", "secrets", "scram", "digest", "rehashed"})


CALLER: ContextVar[Principal] = ContextVar("caller", default=ANYONE)
"""Whose request is being served, where it is not passed along: pages of administrators set it."""


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record, as JSON."""

    time_ms: int
    node: int
    # access, keys, topic, group, cluster, schedule, client, session, retained or login_failed
    action: str
    door: str = ""
    user: str = ""
    address: str = ""
    changes: list[dict[str, object]] = []
    count: int = 0  # of failed logins, or of repetitions of a client's change
    note: str = ""
    previous: str = ""  # hash of the record before it of the same node; empty: the first


class Entry(NamedTuple):
    """A record in the journal."""

    offset: int
    record: AuditRecord
    digest: str


class AuditLog:
    """Writes the audit records of this node."""

    def __init__(self, pipeline: Pipeline, store: Store, book: AccessBook, node: int) -> None:
        self._pipeline = pipeline
        self._store = store
        self._book = book
        self._node = node
        self._last: str | None = None  # hash of our last record; None: not looked up yet
        self._failed: dict[tuple[str, str, str], int] = {}  # by user, address and door
        self._failed_others = 0
        self._failed_until_ms = 0
        self._by_clients = ClientChanges()
        self._clients_until_ms = 0

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    def access_changed(
        self, changes: Sequence[Change], author: Principal, now_ms: int
    ) -> Callable[[], None]:
        """Record a change of the access book; the change itself must join the same batch.

        Returns what to call if the batch was not stored.
        """
        return self.changed("access", described(changes, self._book), author, now_ms)

    def keys_changed(self, keys: Iterable[Key], now_ms: int) -> Callable[[], None]:
        rows: list[dict[str, object]] = [
            {
                "kind": "key",
                "name": str(key.id),
                "after": {
                    "device": key.device,
                    "topics": key.topics,
                    "public_key": key.public_key.hex(),
                    "expires_ms": key.expires_ms,
                    "revoked_ms": key.revoked_ms,
                    "successor": key.successor,
                },
            }
            for key in keys
        ]
        return self.changed("keys", rows, CALLER.get(), now_ms)

    def topic_changed(
        self, topic: bytes, after: dict[str, object] | None, now_ms: int
    ) -> Callable[[], None]:
        """Record that a topic was configured, or deleted (None)."""
        row: dict[str, object] = {"kind": "topic", "name": printable(topic, 256)}
        row |= {"is_deleted": True} if after is None else {"after": after}
        return self.changed("topic", [row], CALLER.get(), now_ms)

    def group_changed(
        self, topic: bytes, group: bytes, what: str, after: dict[str, object] | None, now_ms: int
    ) -> Callable[[], None]:
        rows = _touched_rows(topic, group, after)
        return self.changed("group", rows, CALLER.get(), now_ms, what)

    def client_changed(
        self,
        author: Principal,
        now_ms: int,
        what: str,
        topic: bytes,
        group: bytes = b"",
        after: dict[str, object] | None = None,
    ) -> Callable[[], None]:
        """Record what a client did to a topic or a group; it must join the same batch.

        Nothing is recorded while there are no users. See ``access_changed``.
        """
        if self._book.is_open:
            return _nothing
        names = topic[:NAME_BYTES_MAX], group[:NAME_BYTES_MAX]
        change = ClientChange(author.user, what, *names)
        self._clients_until_ms = self._clients_until_ms or now_ms + SUMMARY_MS
        if not self._by_clients.is_first(change, author):
            return _nothing
        rows = _touched_rows(topic, group, after)
        take_back = self.changed("group" if group else "topic", rows, author, now_ms, what)

        def forget() -> None:
            self._by_clients.forget(change)
            take_back()

        return forget

    def cluster_changed(self, what: str, now_ms: int) -> None:
        """Record a change of the cluster's members, which is an entry of its own before."""
        self.changed("cluster", [], CALLER.get(), now_ms, what)

    def changed(
        self,
        action: str,
        changes: list[dict[str, object]],
        author: Principal,
        now_ms: int,
        note: str = "",
    ) -> Callable[[], None]:
        """Record any change; see ``access_changed``."""
        before = self._last
        self._write(
            AuditRecord(
                now_ms,
                self._node,
                action,
                author.door,
                author.user,
                author.address,
                changes,
                note=note,
            )
        )

        def take_back() -> None:
            self._last = before

        return take_back

    @staticmethod
    async def stored(change: Awaitable[object], take_back: Callable[[], None]) -> object:
        """Wait for a recorded change. If it is not stored, neither is its record."""
        try:
            return await change
        except PenstockError:
            take_back()
            raise

    def _write(self, record: AuditRecord, *, keep: bool = False) -> None:
        if self._last is None:
            self._last = self._last_written()
        payload = msgspec.json.encode(msgspec.structs.replace(record, previous=self._last))
        self._last = sha256(payload).hexdigest()
        self._pipeline.publish(TOPIC, [payload], record.time_ms, qos=1, retain=False, keep=keep)

    def _last_written(self) -> str:
        info = self._store.topic(TOPIC)
        if info is None:
            return ""
        first = max(info.first_offset, info.next_offset - LOOKED_BACK_MAX)
        own = [one for one in read(self._store, first) if one.record.node == self._node]
        return own[-1].digest if own else ""

    # ── failed logins ─────────────────────────────────────────────────────────────────────────

    def login_failed(self, user: str, address: str, door: str, now_ms: int) -> None:
        """Count a failed login. ``address`` is without the port."""
        self._failed_until_ms = self._failed_until_ms or now_ms + SUMMARY_MS
        key = (user if user in self._book.users else "", address, door)
        if key in self._failed or len(self._failed) < SUMMED_MAX:
            self._failed[key] = self._failed.get(key, 0) + 1
        else:
            self._failed_others += 1

    def turn(self, now_ms: int) -> None:
        """Called periodically: write the summaries of a minute that is over."""
        self._sum_up(now_ms)

    def finish(self, now_ms: int) -> None:
        """The broker stops: write the summaries of the minute that has begun."""
        self._clients_until_ms = min(self._clients_until_ms, now_ms)
        self._failed_until_ms = min(self._failed_until_ms, now_ms)
        self._sum_up(now_ms)

    def _sum_up(self, now_ms: int) -> None:
        if self._clients_until_ms and now_ms >= self._clients_until_ms:
            self._clients_until_ms = 0
            self._sum_up_clients(now_ms)
        if not self._failed_until_ms or now_ms < self._failed_until_ms:
            return
        failed, self._failed, self._failed_until_ms = self._failed, {}, 0
        most = sorted(failed.items(), key=lambda item: -item[1])
        for (user, address, door), count in most[:SUMMARIES_MAX]:
            note = "" if user else "no such user"
            self._write(
                AuditRecord(
                    now_ms,
                    self._node,
                    "login_failed",
                    door,
                    user,
                    address,
                    count=count,
                    note=note,
                ),
                keep=True,
            )
        others = self._failed_others + sum(count for _, count in most[SUMMARIES_MAX:])
        self._failed_others = 0
        if others:
            record = AuditRecord(now_ms, self._node, "login_failed", count=others, note="others")
            self._write(record, keep=True)

    def _sum_up_clients(self, now_ms: int) -> None:
        for change, author, count in self._by_clients.take():
            rows = _touched_rows(change.topic, change.group, None) if change.topic else []
            self._write(
                AuditRecord(
                    now_ms,
                    self._node,
                    "group" if change.group else "topic",
                    author.door,
                    author.user,
                    author.address,
                    rows,
                    count,
                    f"{change.what or 'others'}, again",
                ),
                keep=True,
            )


def _nothing() -> None:
    """Nothing was recorded, so nothing is taken back."""


def _touched_rows(
    topic: bytes, group: bytes, after: dict[str, object] | None
) -> list[dict[str, object]]:
    name = printable(topic, NAME_BYTES_MAX)
    row: dict[str, object] = {"kind": "topic", "name": name}
    if group:
        row = {"kind": "group", "name": printable(group, NAME_BYTES_MAX), "topic": name}
    return [row | {"after": after} if after else row]


# ── reading ───────────────────────────────────────────────────────────────────────────────────


def read(store: Store, first: int, count_max: int = LOOKED_BACK_MAX) -> list[Entry]:
    """Records from an offset on. Reads the disk: for reader threads, and small counts."""
    found: list[Entry] = []
    while len(found) < count_max:
        part = store.read_topic(TOPIC, first, count_max - len(found), BYTES_AT_ONCE)
        entries = list(_entries(part))
        if not entries:
            break
        found += entries
        first = entries[-1].offset + 1
    return found


def latest(store: Store, count: int) -> list[Entry]:
    """The last records, oldest first."""
    info = store.topic(TOPIC)
    if info is None:
        return []
    return read(store, max(info.first_offset, info.next_offset - count), count)


def _entries(part: TopicRange) -> Iterator[Entry]:
    for message in part.messages():
        record = msgspec.json.decode(message.payload, type=AuditRecord)
        yield Entry(message.offset, record, sha256(message.payload).hexdigest())


def broken_links(entries: Iterable[Entry]) -> list[int]:
    """Offsets of records whose predecessor is not the one before them: some are missing.

    The first record of each node cannot be judged.
    """
    last: dict[int, str] = {}
    broken = []
    for offset, record, digest in entries:
        if last.get(record.node, record.previous) != record.previous:
            broken.append(offset)
        last[record.node] = digest
    return broken


# ── rows without secrets ──────────────────────────────────────────────────────────────────────


def described(changes: Iterable[Change], book: AccessBook) -> list[dict[str, object]]:
    """Rows before and after, as far as they differ, without what is secret."""
    return [_described(Change(*change), book) for change in changes]


def _described(change: Change, book: AccessBook) -> dict[str, object]:
    old = book.get(change.kind, change.name)
    new = None if change.row is None else decode_row(change.kind, change.row)
    told: dict[str, object] = {"kind": change.kind, "name": change.name}
    if old is not None:
        told["before"] = _shown(old)
    if new is not None:
        told["after"] = _shown(new)
    if isinstance(old, User) and isinstance(new, User):
        told["has_new_credentials"] = _credentials(old) != _credentials(new)
    return told


def _credentials(user: User) -> tuple[object, ...]:
    return user.password, user.secrets, user.scram


def _shown(row: Row) -> dict[str, object]:
    shown = {
        name: msgspec.to_builtins(getattr(row, name))
        for name in row.__struct_fields__
        if name not in _HIDDEN and name != "name"
    }
    if isinstance(row, User):
        shown["has_password"] = bool(row.password or row.scram)
        shown["secrets"] = len(row.secrets)
    return shown
