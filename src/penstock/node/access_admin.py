"""Administration of users, roles, tokens and bans; changes go through the journal."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from penstock.access.audit import AuditLog
from penstock.access.denials import Denials
from penstock.access.new_secrets import cost_of
from penstock.access.plans import is_less, shares
from penstock.admin.view import AffectedSubscription
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Auth
from penstock.core.broker import Broker
from penstock.core.commands import AccessChanged
from penstock.core.retained import RetainedMessage
from penstock.core.session import Session
from penstock.errors import AccessConflict, Refused
from penstock.node.cluster_admin import check_leads
from penstock.reading.confirming import confirmed
from penstock.trust.book import ANY_VERSION, STALE, AccessBook, Change
from penstock.trust.principal import Principal
from penstock.trust.rules import Action


class NodeAccessAdmin:
    """Implements ``admin.view.AccessAdmin``."""

    def __init__(
        self,
        settings: Auth,
        broker: Broker,
        denials: Denials,
        pipeline: Pipeline,
        cluster: Consensus,
        clock: Clock,
        audit: AuditLog,
    ) -> None:
        self._audit = audit
        self.password_cost = cost_of(settings)
        self._broker = broker
        self.book = broker.access
        self.denials = denials
        self._pipeline = pipeline
        self._cluster = cluster
        self.wall_ms = clock.wall_ms
        self.one_at_a_time = asyncio.Lock()

    async def confirmed(self) -> None:
        await confirmed(self._cluster)

    def affected(self, after: AccessBook, count_max: int) -> list[AffectedSubscription]:
        """Subscriptions of sessions that would receive less, if the book were this one."""
        found = chain.from_iterable(
            self._narrowed(session, after) for session in self._broker.sessions.values()
        )
        return list(islice(found, count_max))

    def _narrowed(self, session: Session, after: AccessBook) -> Iterator[AffectedSubscription]:
        if not session.user:
            return
        client_id = session.client_id.decode(errors="replace")
        before = self.book.rights_of(session.user, client_id)
        then = after.rights_of(session.user, client_id)
        if before is then:
            return
        for topic_filter in session.subscriptions or ():
            if is_less(*shares(before, then, Action.SUBSCRIBE, topic_filter)):
                name = topic_filter.decode(errors="replace")
                yield AffectedSubscription(session.user, client_id, name)

    def withheld(self) -> Iterator[RetainedMessage | None]:
        return self._broker.owners.walk_withheld()

    async def change(
        self, changes: Sequence[Change], author: Principal, expected: int = ANY_VERSION
    ) -> None:
        """Make all changes or none; they are in force when this returns.

        Raises Refused if the book, as it is when the change is applied, does not allow it;
        AccessConflict if it is not of the version that was expected.
        """
        check_leads(self._cluster)
        waiter = FutureCompletion("nothing was changed")
        command = AccessChanged(
            [(kind, name, row) for kind, name, row in changes],
            by=author.user,
            via=author.door,
            peer=author.address,
            now_ms=self.wall_ms(),
            expected=expected,
        )
        if isinstance(after := self.book.preview(changes), str):
            raise Refused(after, "nothing was changed")
        with self._pipeline.as_leader():
            take_back = self._audit.access_changed(changes, author, command.now_ms)
            self._pipeline.submit(command, waiter, durable=True)
        if fault := await self._audit.stored(waiter.future, take_back):
            # it was overtaken by another change after it was recorded
            self._audit.changed("access", [], author, self.wall_ms(), f"void: {fault}")
            kind = AccessConflict if fault == STALE else Refused
            raise kind(str(fault), "nothing was changed")
