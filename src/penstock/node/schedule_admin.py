"""Administration of scheduled publishes; changes go through the journal."""

from penstock.access.audit import AuditLog
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import ScheduleCancelled, ScheduleMade
from penstock.core.schedules import EXISTS, UNKNOWN
from penstock.errors import Refused
from penstock.model.schedule import ScheduledMessage, Timing
from penstock.node.cluster_admin import check_leads
from penstock.node.schedules import ScheduleRunner
from penstock.obs.printable import printable
from penstock.reading.confirming import confirmed
from penstock.schedules.timing import in_words, next_ms
from penstock.trust.principal import Principal
from penstock.trust.rights import ALL_RIGHTS

_ADVICE = {
    EXISTS: "cancel it first, or choose another name",
    UNKNOWN: "penstock schedule list has them all",
}


class NodeScheduleAdmin:
    """Implements ``admin.view.ScheduleAdmin``."""

    def __init__(
        self,
        broker: Broker,
        runner: ScheduleRunner,
        pipeline: Pipeline,
        cluster: Consensus,
        clock: Clock,
        audit: AuditLog,
    ) -> None:
        self.schedules = broker.schedules
        self.wall_ms = clock.wall_ms
        self._runner = runner
        self._pipeline = pipeline
        self._cluster = cluster
        self._audit = audit

    async def confirmed(self) -> None:
        await confirmed(self._cluster)

    async def create(
        self, name: bytes, timing: Timing, message: ScheduledMessage, missed: str, by: Principal
    ) -> None:
        now_ms = self.wall_ms()
        first_ms = next_ms(timing, now_ms)
        if not first_ms:
            raise Refused("it would never fire: its time has passed", "give a time to come")
        user, roles, via = _owner(by)
        command = ScheduleMade(name, timing, message, missed, user, roles, via, now_ms, first_ms)
        after: dict[str, object] = {
            "topic": printable(message.topic, 256),
            "timing": in_words(timing),
        }
        await self._change(command, by, after)

    async def cancel(self, name: bytes, by: Principal) -> None:
        self._runner.hold(name)
        try:
            await self._change(ScheduleCancelled(name), by, None)
        finally:
            self._runner.release(name)

    async def _change(
        self,
        command: ScheduleMade | ScheduleCancelled,
        by: Principal,
        after: dict[str, object] | None,
    ) -> None:
        """Make a change with its record; both are in force when this returns."""
        check_leads(self._cluster)
        row: dict[str, object] = {"kind": "schedule", "name": printable(command.name, 256)}
        row |= {"is_deleted": True} if after is None else {"after": after}
        waiter = FutureCompletion("nothing was changed")
        with self._pipeline.as_leader():
            take_back = self._audit.changed("schedule", [row], by, self.wall_ms())
            self._pipeline.submit(command, waiter, durable=True)
        fault = await self._audit.stored(waiter.future, take_back)
        if fault:
            self._audit.changed("schedule", [], by, self.wall_ms(), f"void: {fault}")
            raise Refused(str(fault), _ADVICE.get(str(fault), "nothing was changed"))


def _owner(by: Principal) -> tuple[str, tuple[str, ...], str]:
    """User, roles and kind of credentials by which firings are judged.

    Administrators without an account (the socket, ``admin.token``) have all rights and are nobody.
    So is everybody on this machine while there are no users, but then it is the role ``local``.
    """
    if by.rights is not ALL_RIGHTS or by.via:
        return by.user, by.roles, by.via
    return "", () if by.user else ("local",), ""
