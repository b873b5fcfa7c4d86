"""What a principal may do, and under which conditions: one answer for all doors.

A door passes the topics that it has parsed, as they will be used; nothing here parses a request.
Publishing asks ``admit``. A topic is checked when it is new to the route cache, and the result is
kept with the route as flags (``Route.policy``); a user's right to it is kept in ``Rights``. So a
message costs two lookups. Everything else asks ``judge`` or ``judge_filter``.

Some names stand for others, and the other one is judged: an envelope for the topic within, a shared
subscription for its filter, dead letters (``$dlq/TOPIC/GROUP``) as management of their topic.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.access.denials import Denials
from penstock.clock import Clock
from penstock.config.schema import Config, Limits
from penstock.core.live import LiveSubscriber
from penstock.core.retained import Retained
from penstock.core.routes import UNKNOWN_POLICY, Route, Routes
from penstock.core.session import Session
from penstock.core.subscriptions import SubscriptionTrie
from penstock.model.topic import topic_fault
from penstock.obs.counters import Counters
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.gate import Gate
from penstock.trust.principal import ANYONE, Principal
from penstock.trust.rights import Coverage
from penstock.trust.rules import Action
from penstock.trust.touched import ENVELOPE_PREFIX, is_statistics, touched

CAPTURED = 1  # live messages are journaled in the background

SIGNED_ONLY = 2  # unsigned messages are refused

ENVELOPES = 4  # each message is an envelope around a signed message for another topic

FORBIDDEN = 8  # reserved for the broker

RESERVED = (
    b"$SYS",
    b"$audit",
    b"$dlq",
    b"$events",
    b"$share",
    b"$stage",
)  # first levels that clients may not publish to

TopicRoute = Route[Session | LiveSubscriber]

_IN_WORDS = {
    Action.PUBLISH: "publish to",
    Action.SUBSCRIBE: "subscribe to",
    Action.WORK: "work on",
    Action.ADMIN: "administer",
}


class Refusal(NamedTuple):
    """Why a publish is refused: the reason that is counted and the text for log and client."""

    reason: DisconnectReason
    text: str


class Admission:
    """Decides for every door who may do what."""

    def __init__(
        self,
        config: Config,
        routes: Routes[Session | LiveSubscriber],
        retained: Retained,
        gate: Gate,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._limits = config.limits
        self._lets_signers_in = config.auth.signed_publish
        self._wall_ms = clock.wall_ms
        self.denials = Denials()
        counters.denied = self.denials.counts
        self._routes = routes
        self._retained = retained
        self._counters = counters
        self.gate = gate
        self.is_captured = capture_policy(config)

    def judge(
        self, principal: Principal, action: Action, topic: bytes = b"", count: int = 1
    ) -> Refusal | None:
        """Why a principal may not do this to a topic, noted; None if it may."""
        topic, action = judged(topic, action)
        if principal.rights.may(action, topic):
            return None
        if action is Action.SUBSCRIBE and is_statistics(topic):
            return self.judge(principal, Action.MONITOR)
        return self._deny(principal, action, topic, count)

    def allows(self, principal: Principal, action: Action, topic: bytes = b"") -> bool:
        """``judge`` for topics that nobody asked for by name: a denial is not noted."""
        topic, action = judged(topic, action)
        return principal.rights.may(action, topic)

    def judge_filter(
        self, principal: Principal, action: Action, topic_filter: bytes
    ) -> Refusal | None:
        """Why a principal may do this to no topic that a filter matches; None if it may to some.

        Topics that it may not receive are left out when they are routed (``Routes.resolve``).
        """
        topic_filter, action = judged(topic_filter, action)
        if not topic_filter:
            return self.judge(principal, action)  # the audit log: it is not about topics
        if principal.rights.coverage(action, topic_filter) is not Coverage.NONE:
            return None
        if action is Action.SUBSCRIBE and is_statistics(topic_filter):
            return self.judge(principal, Action.MONITOR)
        return self._deny(principal, action, topic_filter, 1)

    def _deny(self, principal: Principal, action: Action, topic: bytes, count: int) -> Refusal:
        self.denials.note(principal, action, topic, self._wall_ms(), count)
        who = f"user {principal.user}" if principal.user else "a client that has not logged in"
        what = f"{_IN_WORDS.get(action, action.word)} {printable(topic) if topic else 'the broker'}"
        return Refusal(DisconnectReason.NOT_AUTHORIZED, f"{who} may not {what}")

    def admit(self, principal: Principal, topic: bytes, count: int = 1) -> TopicRoute | Refusal:
        """The route of a topic with its ``policy``, or why publishing to it is refused.

        A refused topic is not added to the route cache. Envelopes are judged by what is in them.
        """
        publishable = principal.rights.publishable
        if (
            publishable is not None
            and topic not in publishable
            and not topic.startswith(ENVELOPE_PREFIX)
            and not principal.rights.may_publish(topic)
        ):
            self._counters.dropped(
                DropReason.NOT_AUTHORIZED, count, b"", topic, user=principal.user
            )
            return self._deny(principal, Action.PUBLISH, topic, count)
        route = self._routes.cached.get(topic)
        if route is None or route.policy == UNKNOWN_POLICY:
            refusal = topic_refusal(topic, self._limits)
            if refusal is not None:
                return refusal
            route = route or self._routes.resolve(topic)
            route.policy = self.policy(topic)
        if route.policy & FORBIDDEN:
            return topic_refusal(topic, self._limits) or Refusal(
                DisconnectReason.TOPIC_RESERVED, _reserved(topic)
            )
        return route

    def admit_signed(
        self, principal: Principal, topic: bytes, count: int = 1
    ) -> TopicRoute | Refusal:
        """``admit`` for messages with a signature, which the gate has yet to verify.

        Whoever has no name publishes as the holder of the key: the gate knows the topics of the
        key, so devices that can sign but not log in go on (``auth.signed_publish``).
        """
        if not principal.user and self._lets_signers_in:
            principal = ANYONE
        return self.admit(principal, topic, count)

    def admit_unsigned(
        self,
        principal: Principal,
        topic: bytes,
        count: int = 1,
        *,
        could_sign: bool = False,
        has_envelopes: bool = False,
    ) -> TopicRoute | Refusal:
        """``admit`` for messages without a signature; counts them if they are refused.

        ``could_sign``: the client has a command for signed publishes, which the text names.
        ``has_envelopes``: the caller opens the envelopes of topics below ``$signed/``.
        """
        route = self.admit(principal, topic, count)
        if isinstance(route, Refusal):
            return route
        policy = route.policy
        if policy <= CAPTURED or (has_envelopes and policy & ENVELOPES):
            return route
        return self.refuse_unsigned(topic, count, could_sign=could_sign)

    def refuse_unsigned(self, topic: bytes, count: int, *, could_sign: bool = True) -> Refusal:
        """Count unsigned publishes to a topic that demands signatures and explain the refusal."""
        refusal = self.gate.admit_unsigned(topic, count)
        detail = "unsigned" if refusal else "not in an envelope"
        self._counters.dropped(DropReason.SIGNATURE_REFUSED, count, topic=topic, detail=detail)
        if refusal is None:
            text = "Topics below $signed/ take envelopes with signed messages only"
        elif could_sign:
            text = refusal.text
        else:
            name = topic.decode()
            text = f"Topic '{name}' requires signed messages; this command cannot carry a signature"
        return Refusal(DisconnectReason.SIGNATURE_REFUSED, text)

    def route(self, topic: bytes) -> TopicRoute:
        """The route of a topic that was admitted before, or that the broker itself publishes to."""
        route = self._routes.cached.get(topic) or self._routes.resolve(topic)
        if route.policy == UNKNOWN_POLICY:
            route.policy = self.policy(topic)
        return route

    def may_retain(self, topic: bytes, payload: bytes) -> bool:
        """Whether there is room to retain a message; if not it is only delivered, and counted."""
        if not payload or self.has_room_to_retain(topic):
            return True
        self._counters.dropped(DropReason.RETAINED_LIMIT, 1, topic=topic)
        return False

    def has_room_to_retain(self, topic: bytes) -> bool:
        return self._retained.admits(topic)

    def policy(self, topic: bytes) -> int:
        if topic.startswith(ENVELOPE_PREFIX):
            return ENVELOPES
        if topic_refusal(topic, self._limits) is not None:
            return FORBIDDEN  # reserved for the broker
        signed_only = SIGNED_ONLY if self.gate.demands_signature(topic) else 0
        return signed_only | (CAPTURED if self.is_captured(topic) else 0)


judged = touched
"""What is judged in place of a topic: one answer for doors and for the fold."""


def topic_refusal(topic: bytes, limits: Limits) -> Refusal | None:
    """Why a topic is malformed or reserved; None if it is neither."""
    fault = topic_fault(topic, limits.topic_bytes_max, limits.topic_levels_max)
    fault = fault or _utf8_fault(topic)
    if fault:
        return Refusal(DisconnectReason.TOPIC_INVALID, f"topic {printable(topic)}: {fault}")
    if topic.startswith(b"$") and topic.partition(b"/")[0] in RESERVED:
        return Refusal(DisconnectReason.TOPIC_RESERVED, _reserved(topic))
    return None


def _reserved(topic: bytes) -> str:
    return f"topic {printable(topic)} is reserved for the broker"


def capture_policy(config: Config) -> Callable[[bytes], bool]:
    """Which QoS 0 messages are journaled: all but ``$…`` and ``journal.capture_exclude``."""
    if not config.journal.capture:
        return lambda _topic: False
    excluded: SubscriptionTrie[str] = SubscriptionTrie()
    for topic_filter in config.journal.capture_exclude:
        excluded.subscribe(topic_filter.encode(), topic_filter, 0)
    return lambda topic: not topic.startswith(b"$") and not excluded.match(topic)


def _utf8_fault(topic: bytes) -> str:
    try:
        topic.decode()
    except UnicodeDecodeError:
        return "not UTF-8"  # [MQTT-1.5.3-1]
    return ""
