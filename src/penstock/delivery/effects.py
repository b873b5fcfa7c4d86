"""Carries out the broker's effects; an internal error for one client does not affect others.

Effects on sessions are handled here. For others, parts of the broker register handlers (``on``);
an effect may have several.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.core.delivery import Delivery
from penstock.core.effects import (
    Accepted,
    Control,
    Effects,
    Ended,
    Outcome,
    PageTurned,
    PortionSent,
    ReplayTurned,
    SessionDenied,
    SubscribeAnswer,
    TakenOver,
    Unkept,
    UnsubscribeAnswer,
)
from penstock.core.session import SessionClient
from penstock.core.subscription_options import is_refusal
from penstock.net.flusher import Flusher
from penstock.obs.counters import Counters
from penstock.obs.events import DROPPED
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason

_log = get_logger("delivery")

Effect = TypeVar("Effect", bound=Control)


class EffectHandlers:
    """Executes effects after a batch was applied."""

    def __init__(self, flusher: Flusher, counters: Counters) -> None:
        self._flusher = flusher
        self._counters = counters
        self._handlers: dict[type, list[Callable[..., None]]] = {}
        self.on(Accepted, _accept)
        self.on(SessionDenied, _deny_session)
        self.on(TakenOver, _close_taken_over)
        self.on(Ended, _close_ended)
        self.on(SubscribeAnswer, self._answer_subscribe)
        self.on(UnsubscribeAnswer, self._answer_unsubscribe)
        self.on(Unkept, lambda effect: effect.waiter.close(DisconnectReason.STORAGE_FAILED))
        self.on(Outcome, lambda effect: effect.waiter.done(effect.value))
        self.on(PageTurned, lambda effect: effect.waiter.offer_more(is_page_done=effect.is_done))
        self.on(ReplayTurned, lambda effect: effect.waiter.replay_more(is_page_done=effect.is_done))
        self.on(PortionSent, lambda effect: effect.waiter.drain_more())

    def on(self, effect: type[Effect], handler: Callable[[Effect], None]) -> None:
        self._handlers.setdefault(effect, []).append(handler)

    def execute(self, effects: Effects) -> None:
        """Carry out controls, then deliveries, then acknowledgements; write what they produced."""
        was_holding = self._flusher.hold()
        if effects.drops:
            self._record(effects)
        for replayed, pass_on in effects.seams:
            self._end_replay(replayed, effects.deliveries.pop(replayed, []), pass_on)
        for control in effects.controls:
            try:
                for handler in self._handlers.get(type(control), ()):
                    handler(control)
            except Exception:  # noqa: BLE001 - must not affect other clients
                _log.exception("delivery_failed")
                if control.waiter is not None:
                    control.waiter.refused(DisconnectReason.INTERNAL_ERROR)
        for client, deliveries in effects.deliveries.items():
            try:
                client.deliver(deliveries)
            except Exception:  # noqa: BLE001 - as above
                _log.exception("delivery_failed")
                client.close(DisconnectReason.INTERNAL_ERROR)
        for (acknowledged, kind), packet_ids in effects.acks.items():
            try:
                acknowledged.acknowledge(kind, packet_ids)
            except Exception:  # noqa: BLE001 - as above
                _log.exception("delivery_failed")
                acknowledged.refused(DisconnectReason.INTERNAL_ERROR)
        self._flusher.restore(was_holding)

    def _record(self, effects: Effects) -> None:
        for drop in effects.drops.values():
            self._counters.events.note(
                DROPPED,
                drop.reason.value,
                drop.client_id,
                drop.topic,
                group=drop.group,
                count=drop.count,
                offset=drop.offset,
                sequences=(drop.first, drop.last),
                detail=drop.detail,
                is_everywhere=True,
            )

    def _end_replay(
        self, client: SessionClient, deliveries: list[Delivery], pass_on: Callable[[], None]
    ) -> None:
        """Send the end of a history, and the live messages that have waited for it."""
        try:
            client.deliver(deliveries)
            pass_on()
        except Exception:  # noqa: BLE001 - as above
            _log.exception("delivery_failed")
            client.close(DisconnectReason.INTERNAL_ERROR)

    def _answer_subscribe(self, effect: SubscribeAnswer) -> None:
        refused = sum(map(is_refusal, effect.return_codes))
        self._counters.refused_total += refused
        self._counters.subscribed_total += len(effect.return_codes) - refused
        effect.waiter.subscribed(effect.packet_id, effect.return_codes)

    def _answer_unsubscribe(self, effect: UnsubscribeAnswer) -> None:
        self._counters.unsubscribed_total += 1
        effect.waiter.unsubscribed(effect.packet_id, effect.existed)


def _accept(effect: Accepted) -> None:
    effect.waiter.accept(effect.session, session_present=effect.session_present)


def _deny_session(effect: SessionDenied) -> None:
    effect.waiter.refused(DisconnectReason.NOT_AUTHORIZED, effect.text)


def _close_taken_over(effect: TakenOver) -> None:
    effect.waiter.close(DisconnectReason.SESSION_TAKEN_OVER)


def _close_ended(effect: Ended) -> None:
    effect.waiter.close(DisconnectReason.SESSION_ENDED)
