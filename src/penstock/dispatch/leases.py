"""Operations on leases: settle, give back, extend.

A lease that is over cannot be settled, given back or extended. A request that names only such
leases is answered at once, without a commit.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from penstock.commit.completion import Callback
from penstock.core.commands import LeasesExtended, LeasesReturned, LeasesSettled, Returned
from penstock.core.completion import Completion
from penstock.dispatch.holders import Holders
from penstock.dispatch.parts import RETRY_S, DispatchParts
from penstock.dispatch.unacked import ranges_of
from penstock.obs.events import RETURNED
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason


@runtime_checkable
class LeaseCompletion(Completion[object], Protocol):
    """A completion that is also told which of its leases were over already, before it is done."""

    def lapsed(self, leases: list[int]) -> None: ...


class Leases:
    """The leases of all groups; ``returned`` is called with a topic and group to dispatch again."""

    def __init__(
        self,
        parts: DispatchParts,
        returned: Callable[[bytes, bytes], None],
        *,
        are_volatile: bool = False,
    ) -> None:
        """``are_volatile``: a crash may lose the record of a lease."""
        self._parts = parts
        self._returned = returned
        # A crash may undo the record of a lease while its worker still has it. So each incarnation
        # has lease numbers of its own: an old worker must not settle what another one has.
        self._next = parts.clock.wall_ms() << 10 if are_volatile else 0
        self._holders = Holders()
        self._departing: set[tuple[bytes, bytes, bytes]] = set()  # topic, group, worker

    def reserve(self, count: int) -> int:
        """The first of ``count`` new lease numbers."""
        first = max(self._next, self._parts.broker.groups.next_lease)
        self._next = first + count
        return first

    def given(self, first: int, count: int, holder: bytes) -> None:
        """Note who was given leases, for whoever asks; bounded, in memory of this node alone."""
        self._holders.note(first, count, holder)

    def holder(self, lease: int) -> bytes:
        """Who was given a lease; empty: not known."""
        return self._holders.of(lease)

    def settle(
        self,
        topic: bytes,
        group: bytes,
        leases: list[int],
        completion: Completion[object] | None = None,
    ) -> None:
        """Settle messages. Without a completion this may wait for the next commit."""
        known = self._parts.broker.groups.get(topic, group)
        held = self._held(topic, group, leases)
        if known is not None and len(held) < len(leases):
            held += [lease for lease in leases if known.lapsed.find(lease) is not None]
        _report_lapsed(completion, leases, held)
        if not held:
            _answer(completion)
            return
        self._parts.counters.acknowledged_total += len(held)
        command = LeasesSettled(topic, group, ranges_of(held))
        if completion is None:
            self._parts.pipeline.submit_patiently(command, None)
        else:
            self._parts.pipeline.submit(command, completion, durable=True)

    def give_back(
        self,
        topic: bytes,
        group: bytes,
        leases: list[int],
        completion: Completion[object] | None = None,
        *,
        delay_ms: int = 0,
        reason: bytes = b"",
        counts: bool = True,
        is_failure: bool = True,
        is_final: bool = False,
    ) -> None:
        """Return messages to their group, to be delivered again; finally: as dead letters."""
        held = self._held(topic, group, leases)
        if not held:
            _answer(completion)
            return
        now_ms = self._parts.steady.now_ms()
        command = LeasesReturned(
            topic, group, ranges_of(held), now_ms, delay_ms, reason, counts, is_failure, is_final
        )
        self._parts.counters.returned_total += len(held)
        if is_failure:
            self._note_return(topic, group, held, reason)
        self._submit_return(command, completion)

    def _note_return(self, topic: bytes, group: bytes, held: list[int], reason: bytes) -> None:
        """Record who gave messages back, and why."""
        known = self._parts.broker.groups.get(topic, group)
        self._parts.counters.events.note(
            RETURNED,
            "returned",
            self.holder(held[0]),
            topic,
            group=group,
            count=len(held),
            offset=known.leases.get(held[0], -1) if known else -1,
            detail=printable(reason),
        )

    def extend(
        self,
        topic: bytes,
        group: bytes,
        leases: list[int],
        visibility_ms: int,
        completion: Completion[object] | None = None,
    ) -> None:
        """Let leases end ``visibility_ms`` from now."""
        held = self._held(topic, group, leases)
        _report_lapsed(completion, leases, held)
        if not held:
            _answer(completion)
            return
        deadline_ms = self._parts.steady.now_ms() + visibility_ms
        command = LeasesExtended(topic, group, ranges_of(held), deadline_ms)
        self._parts.pipeline.submit(command, completion, durable=True)

    def _held(self, topic: bytes, group: bytes, leases: list[int]) -> list[int]:
        known = self._parts.broker.groups.get(topic, group)
        return [lease for lease in leases if lease in known.leases] if known else []

    def return_all_of(self, topic: bytes, group: bytes, consumer: bytes) -> None:
        """Return everything that a worker has."""
        self._submit_return(Returned(topic, group, consumer))

    def return_departed(self, topic: bytes, group: bytes, consumer: bytes) -> None:
        """Like ``return_all_of``, for a worker of a node that is gone; one attempt at a time."""
        key = topic, group, consumer
        if key not in self._departing:
            self._departing.add(key)
            self._submit_return(Returned(topic, group, consumer))

    def _submit_return(
        self, command: Returned | LeasesReturned, completion: Completion[object] | None = None
    ) -> None:
        """Without a completion this is retried until the commit succeeds."""

        def done(value: object) -> None:
            if completion is not None:
                completion.done(value)
            if isinstance(command, Returned):
                self._departing.discard((command.topic, command.group, command.consumer))
            self._returned(command.topic, command.group)

        def refused(reason: DisconnectReason, detail: str) -> None:
            if completion is not None:
                completion.refused(reason, detail)
            else:
                loop = self._parts.connections.loop
                loop.call_later(RETRY_S, self._submit_return, command)

        self._parts.pipeline.submit(command, Callback(done, refused), durable=True)


def _answer(completion: Completion[object] | None) -> None:
    if completion is not None:
        completion.done(0)


def _report_lapsed(
    completion: Completion[object] | None, leases: list[int], held: list[int]
) -> None:
    if len(held) < len(leases) and isinstance(completion, LeaseCompletion):
        known = set(held)
        completion.lapsed([lease for lease in leases if lease not in known])
