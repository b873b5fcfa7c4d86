"""Administration of users, roles, tokens and bans; changes go through the journal."""

from collections.abc import Sequence

from penstock.access.denials import Denials
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import AccessChanged
from penstock.errors import Refused
from penstock.node.cluster_admin import check_leads
from penstock.reading.confirming import confirmed
from penstock.trust.book import ANY_VERSION, AccessBook, Change
from penstock.trust.principal import Principal


class NodeAccessAdmin:
    """Implements ``admin.view.AccessAdmin``."""

    def __init__(
        self,
        book: AccessBook,
        denials: Denials,
        pipeline: Pipeline,
        cluster: Consensus,
        clock: Clock,
    ) -> None:
        self.book = book
        self.denials = denials
        self._pipeline = pipeline
        self._cluster = cluster
        self.wall_ms = clock.wall_ms

    async def confirmed(self) -> None:
        await confirmed(self._cluster)

    async def change(
        self, changes: Sequence[Change], author: Principal, expected: int = ANY_VERSION
    ) -> None:
        """Make all changes or none; they are in force when this returns.

        Raises Refused if the book, as it is when the change is applied, does not allow it.
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
        with self._pipeline.as_leader():
            self._pipeline.submit(command, waiter, durable=True)
        if fault := await waiter.future:
            raise Refused(str(fault), "nothing was changed")
