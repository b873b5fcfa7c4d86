"""Live messages on their way to subscribers, in every wire form that one of them needs.

A publisher's door makes one ``Live`` of messages that came together; ``delivery/fanout`` gives the
same object to all subscribers. Each form (MQTT packets, RESP pushes) is worked out when the first
subscriber asks for it, and shared by the rest. A publisher that speaks the same protocol as the
subscriber brings its raw frames along, and nothing is worked out at all.

Subscriptions of MQTT 5 with an identifier, or with retain as published, are **marked**
(``core.subscription_options``): their form is shared by all with the same identifiers. A message
that expires has no form that could be shared: it may wait for its subscriber.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol, overload

from penstock.core.delivery import Delivery
from penstock.model.message import (
    CONTENT_TYPE_SHIFT,
    FLAG_CONTENT_TYPE,
    FLAG_RETAIN,
    FLAG_RETAIN_UNKEPT,
    Extras,
)
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.trust.rights import NO_RIGHTS, Rights
from penstock.wire.mqtt import encode as mqtt
from penstock.wire.mqtt.message_properties import MessageProperties
from penstock.wire.mqtt.sent_properties import ids_block, message_block
from penstock.wire.resp import encode as resp


class Run(Protocol):
    """Consecutive messages of one topic."""

    @property
    def topic(self) -> bytes: ...

    @property
    def payloads(self) -> list[bytes]: ...

    @property
    def properties(self) -> MessageProperties | None: ...

    @property
    def each(self) -> list[MessageProperties | None] | None:
        """The properties of each message, if they have different ones."""


class _Single:
    """The run of one message, or of several that no machine made."""

    __slots__ = ("payloads", "properties", "topic")

    each = None

    def __init__(
        self, topic: bytes, payloads: list[bytes], properties: MessageProperties | None = None
    ) -> None:
        self.topic = topic
        self.payloads = payloads
        self.properties = properties


class LazyRuns(Sequence[Run]):
    """Runs that are worked out when somebody wants them."""

    __slots__ = ("_make", "_runs")

    def __init__(self, make: Callable[[], Sequence[Run]]) -> None:
        self._make = make
        self._runs: Sequence[Run] | None = None

    def _found(self) -> Sequence[Run]:
        if self._runs is None:
            self._runs = self._make()
        return self._runs

    def __len__(self) -> int:
        return len(self._found())

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Run]: ...
    def __getitem__(self, place: int | slice) -> Run | Sequence[Run]:
        return self._found()[place]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._found())


def column_runs(topics: Sequence[bytes], payloads: list[bytes]) -> Sequence[Run]:
    """The runs of messages, ``topics[n]`` that of ``payloads[n]``."""
    pairs = zip(topics, payloads, strict=True)
    return [
        _Single(topic, [payload for _, payload in run])
        for topic, run in groupby(pairs, itemgetter(0))
    ]


class RespForm(Protocol):
    """Names and payloads of messages as bulk strings of RESP."""

    def pushes(self, head: bytes) -> bytes:
        """The messages as pushes that begin with ``head``, without name and payload."""


class Live:
    """``runs`` in order, ``count`` messages in all; ``mqtt`` if the publisher had it as MQTT."""

    __slots__ = ("_forms", "count", "mqtt", "mqtt_5", "resp", "runs")

    # what few messages have; ``SpecialLive`` has them
    expires_ms: int = 0  # 0: never
    is_retained: bool = False  # whether they were published with RETAIN
    publisher: bytes = b""  # client id

    def __init__(
        self,
        runs: Sequence[Run],
        count: int,
        mqtt: bytes | None = None,
        mqtt_5: bytes | None = None,
        resp: "RespForm | None" = None,
    ) -> None:
        self.runs = runs
        self.count = count
        self.resp = resp
        """The messages as a publisher has written them by RESP; or None."""
        self.mqtt = mqtt
        """The messages as packets of MQTT 3.1.1, QoS 0; None before the first ``as_mqtt``."""
        self.mqtt_5 = mqtt_5
        """The messages as packets of MQTT 5, QoS 0; None before the first ``as_mqtt_5``."""
        self._forms: dict[object, bytes] | None = None  # by what is in them

    @classmethod
    def of(
        cls, topic: bytes, payloads: list[bytes], properties: MessageProperties | None = None
    ) -> "Live":
        return cls((_Single(topic, payloads, properties),), len(payloads))

    def as_mqtt(self) -> bytes:
        """The messages as packets of MQTT 3.1.1, QoS 0, RETAIN 0."""
        if self.mqtt is None:
            self.mqtt = b"".join([mqtt.publishes(run.topic, run.payloads) for run in self.runs])
        return self.mqtt

    def as_mqtt_5(self) -> bytes:
        """The messages as packets of MQTT 5, QoS 0, RETAIN 0, with their properties."""
        if self.mqtt_5 is None:
            self.mqtt_5 = self._packets((), is_retained=False)
        return self.mqtt_5

    def as_marked(self, ids: tuple[int, ...], *, is_retained: bool) -> bytes:
        """As ``as_mqtt_5``, with identifiers of subscriptions, and RETAIN if ``is_retained``."""
        if self._forms is None:
            self._forms = {}
        found = self._forms.get((ids, is_retained))
        if found is None:
            found = self._forms[ids, is_retained] = self._packets(ids, is_retained=is_retained)
        return found

    def _packets(self, ids: tuple[int, ...], *, is_retained: bool) -> bytes:
        end = ids_block(ids)
        return b"".join(
            [
                mqtt.publishes(run.topic, run.payloads, block_of(run) + end, retain=is_retained)
                for run in parts(self.runs)
            ]
        )

    def as_resp(self, head: bytes) -> bytes:
        """The messages as pushes of RESP that begin with ``head``, without name and payload."""
        if self._forms is None:
            self._forms = {}
        found = self._forms.get(head)
        if found is None:
            if self.resp is not None:
                found = self.resp.pushes(head)
            else:
                runs = [resp.deliveries(head, run.topic, run.payloads) for run in self.runs]
                found = b"".join(runs)
            self._forms[head] = found
        return found


class SpecialLive(Live):
    """Messages that expire, were published with RETAIN, or whose publisher matters.

    Those that expire have no common form: each subscriber writes how much time is left.
    """

    __slots__ = ("expires_ms", "is_retained", "publisher")

    def __init__(
        self,
        runs: Sequence[Run],
        count: int,
        mqtt: bytes | None = None,
        mqtt_5: bytes | None = None,
        *,
        expires_ms: int = 0,
        is_retained: bool = False,
        publisher: bytes = b"",
    ) -> None:
        super().__init__(runs, count, mqtt, mqtt_5)
        self.expires_ms = expires_ms
        self.is_retained = is_retained
        self.publisher = publisher

    @classmethod
    def of_message(
        cls,
        topic: bytes,
        payloads: list[bytes],
        properties: MessageProperties | None = None,
        *,
        expires_ms: int = 0,
        is_retained: bool = False,
        publisher: bytes = b"",
    ) -> "SpecialLive":
        """Messages of one topic that have all of this in common."""
        return cls(
            (_Single(topic, payloads, properties),),
            len(payloads),
            expires_ms=expires_ms,
            is_retained=is_retained,
            publisher=publisher,
        )


def live_of(
    topic: bytes, payload: bytes, extras: Extras | None, flags: int = 0, publisher: bytes = b""
) -> Live:
    """A message as the journal has it; ``flags`` are those of the journal."""
    content_type = (flags & FLAG_CONTENT_TYPE) >> CONTENT_TYPE_SHIFT
    block = message_block(extras, content_type)
    properties = None
    if extras is not None or block:
        properties = MessageProperties(extras.headers if extras else (), None, 0, block)
    return SpecialLive.of_message(
        topic,
        [payload],
        properties,
        expires_ms=extras.expires_ms if extras else 0,
        is_retained=bool(flags & (FLAG_RETAIN | FLAG_RETAIN_UNKEPT)),
        publisher=publisher,
    )


def parts(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs whose messages have the same properties."""
    for run in runs:
        if run.each is None:
            yield run
        else:
            for payload, properties in zip(run.payloads, run.each, strict=True):
                yield _Single(run.topic, [payload], properties)


def block_of(run: Run) -> bytes:
    return b"" if run.properties is None else run.properties.block


class LiveClient(Protocol):
    """A connection that live messages are sent to."""

    @property
    def principal(self) -> Principal: ...

    def forward(self, live: Live) -> None:
        """Send live messages, which may be dropped if the client reads slowly."""

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Send messages that must arrive."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class LiveSubscriber:
    """A subscriber without a session, as routes see it."""

    __slots__ = ("client",)

    def __init__(self, client: LiveClient | None) -> None:
        self.client = client

    @property
    def rights(self) -> Rights:
        return self.client.principal.rights if self.client is not None else NO_RIGHTS
