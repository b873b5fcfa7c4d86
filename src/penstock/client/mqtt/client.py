"""The blocking client of MQTT: a socket and a clock around ``MqttSession`` and ``KeepAlive``.

Everything that waits is one loop, ``_run_until``: send, stop if the wanted state is reached, else
sleep in ``poll`` until the socket, the clock or a file descriptor of the caller is ready. It reads
while it sends, so that two ends that both have much to send do not block each other. There is no
thread, and nothing happens between two calls: after one and a half times the keep-alive without a
call the broker closes the connection.

**Confirmed means answered.** ``publish`` returns after PUBACK (QoS 1) or PUBCOMP (QoS 2); with QoS
0 when the system has taken the bytes; ``ping`` then tells whether the broker took them. ``close``
waits until the broker has read everything: it closes its own direction, then reads to the end,
since closing a socket with unread data would make the broker drop what it has not read yet.

**Taken means acknowledged.** Deliveries are acknowledged when the caller asks for more, or leaves
the ``with`` block without an exception; see ``receive``.
"""

import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import ceil, inf
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from penstock.client.credentials import Credentials
from penstock.client.dial import Connection, dial, lost, unanswered
from penstock.client.errors import (
    ArgumentError,
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    ReplyTimeoutError,
)
from penstock.client.mqtt.keep_alive import KeepAlive
from penstock.client.mqtt.session import (
    Connected,
    Delivery,
    MqttSession,
    SessionEvent,
    SubscribeAnswered,
)
from penstock.client.tls import Tls, tls_settings
from penstock.limits import KIB
from penstock.wire.mqtt.events import Will

READ_BYTES: Final = 256 * KIB
WRITE_BYTES: Final = 64 * KIB  # publishes are gathered up to this size and sent together
WINDOW: Final = 1_000  # publishes in flight at once; the broker commits them together

OF_WORK_QUEUES: Final = frozenset(
    {"produce", "produce_many", "poll", "ack", "nack", "create_topic"}
)  # called on a client of MQTT if the list of addresses was forgotten

ACKNOWLEDGE_DELAY_S: Final = 0.05  # longest delay of an acknowledgement while messages are left
LINGER_S: Final = 2.0  # how long ``close`` waits for the broker to read what was sent


def connect(
    host: str = "127.0.0.1",
    port: int = 1883,
    client_id: str = "",
    *,
    clean_session: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    username: str | None = None,
    password: bytes | None = None,
    timeout_s: float = 10.0,
    tls: Tls = None,
    credentials: Credentials | None = None,
) -> "Client":
    """Open a connection, to be used in a ``with`` statement; returns when the broker accepted.

    ``clean_session=False`` (needs a ``client_id``) keeps subscriptions and undelivered messages at
    the broker between connections. ``keep_alive`` is in seconds, 0 for none. ``timeout_s`` is how
    long the broker may be silent when an answer is due, here and later. ``tls=True`` encrypts and
    verifies the broker's certificate; see ``TlsOptions``. ``credentials`` are a user and its
    password or a token, instead of ``username`` and ``password``.
    """
    if credentials is not None:
        username, password = _login(credentials, username, password)
    session = MqttSession()
    session.connect(
        client_id,
        clean_session=clean_session,
        keep_alive=keep_alive,
        will=will,
        username=username,
        password=password,
    )
    connection = dial(host, port, timeout_s, tls_settings(tls))
    client = Client(connection, session, keep_alive, timeout_s)
    try:
        client.wait_for_welcome()
    except BaseException:
        client.abandon()
        raise
    return client


def _login(
    credentials: Credentials, username: str | None, password: bytes | None
) -> tuple[str, bytes]:
    if username is not None or password is not None:
        raise ArgumentError("credentials and username or password: give one of them")
    if credentials.has_key:
        raise ArgumentError("MQTT has no login with a key", "use a password or a token")
    return credentials.user, credentials.secret()


class Client:
    """A connection to a broker, for one thread; made by ``connect``."""

    def __init__(
        self, connection: Connection, session: MqttSession, keep_alive: int, timeout_s: float
    ) -> None:
        connection.setblocking(False)
        self.session_present = False  # the broker had this client's session when it connected
        self._socket = connection
        self._session = session
        self._keep_alive = KeepAlive(keep_alive, timeout_s, monotonic())
        self._timeout_s = timeout_s
        self._outgoing = bytearray()
        self._welcome = False
        self._granted: dict[int, list[int]] = {}
        self._arrived: deque[Delivery] = deque()
        self._given: list[Delivery] = []
        self._acknowledge_at = 0.0

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> object:
            """Point to the client of work queues if one of its calls is used here."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in OF_WORK_QUEUES:
                text += ': a client of work queues has, made by connect(["127.0.0.1:1883"])'
            raise AttributeError(text, name=name, obj=self)

    @property
    def confirmed(self) -> int:
        """Publishes that the broker has confirmed on this connection."""
        return self._session.confirmed

    # ── Beginning and end ─────────────────────────────────────────────────────────────────────

    def wait_for_welcome(self) -> None:
        """Wait for CONNACK; ``connect`` has done so."""
        self._expect(lambda: self._welcome)

    def close(self) -> None:
        """Disconnect. Unacknowledged deliveries stay with the broker."""
        if self._socket.fileno() < 0:
            return
        try:
            self._session.disconnect()
            self._expect(lambda: not self._outgoing)
            self._read_to_the_end()
        finally:
            self._socket.close()

    def abandon(self) -> None:
        """Close the socket without DISCONNECT; the broker publishes the will."""
        self._socket.close()

    def _read_to_the_end(self) -> None:
        """Wait until the broker has read our DISCONNECT and closed in turn."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(LINGER_S)
            while self._socket.recv(READ_BYTES):
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self._acknowledge_given()
            self.close()
        elif isinstance(error, _GONE):
            self.abandon()
        else:
            with suppress(ClientError):
                self.close()

    # ── Publishing ────────────────────────────────────────────────────────────────────────────

    def publish(self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False) -> None:
        """Publish one message; returns when it is confirmed (QoS 1, 2) or sent (QoS 0)."""
        self.publish_many([(topic, payload)], qos, retain=retain)

    def publish_many(
        self,
        messages: Iterable[tuple[str, bytes]],
        qos: int = 0,
        *,
        retain: bool = False,
        window: int = WINDOW,
    ) -> int:
        """Publish ``(topic, payload)`` pairs in order; return how many, once all are confirmed.

        Up to ``window`` are in flight at once. If it raises, the broker has the first ``confirmed``
        of them; the outcome of the others is unknown.
        """
        count = gathered = 0
        for topic, payload in messages:
            self._session.publish(topic, payload, qos, retain=retain)
            count += 1
            gathered += len(topic) + len(payload)
            if gathered >= WRITE_BYTES or self._session.unconfirmed >= window:
                # Half of the window: a broker that confirms one by one still gets the next
                # messages in large groups.
                self._expect(
                    lambda: not self._outgoing and self._session.unconfirmed <= window // 2
                )
                gathered = 0
        self._expect(lambda: not self._outgoing and not self._session.unconfirmed)
        return count

    def ping(self) -> None:
        """Return once the broker has answered, and so has processed all that was sent before.

        It answers in order, and closes the connection on a publish that it does not accept: a ping
        therefore confirms publishes of QoS 0.
        """
        self._session.ping()
        self._expect(lambda: not self._session.pings_unanswered)

    # ── Receiving ─────────────────────────────────────────────────────────────────────────────

    def subscribe(self, requests: Iterable[tuple[str, int]]) -> list[int]:
        """Subscribe to ``(filter, qos)`` pairs; return per pair the QoS granted, 128 if refused."""
        packet_id = self._session.subscribe(requests)
        self._expect(lambda: packet_id in self._granted)
        return self._granted.pop(packet_id)

    def messages(self, timeout_s: float | None = None) -> Iterator[Delivery]:
        """Iterate over what arrives; ends ``timeout_s`` after the first step, if given.

        A delivery is acknowledged when the next one is asked for; see ``receive``.
        """
        deadline = inf if timeout_s is None else monotonic() + timeout_s
        while given := self.receive(1, deadline - monotonic()):
            yield given[0]

    def receive(
        self, count_max: int | None = None, timeout_s: float = inf, wake: Sequence[int] = ()
    ) -> list[Delivery]:
        """Wait for a delivery; return it and others that came with it, at most ``count_max``.

        Empty after ``timeout_s``, or once a file descriptor of ``wake`` is readable or closed at
        the other end. The call acknowledges what the call before returned. So does leaving the
        ``with`` block without an exception.
        """
        self._acknowledge_given()
        now = monotonic()
        if not self._arrived or now >= self._acknowledge_at:
            self._run_until(lambda: bool(self._arrived), now + timeout_s, wake)
            self._acknowledge_at = monotonic() + ACKNOWLEDGE_DELAY_S
        count = len(self._arrived) if count_max is None else min(count_max, len(self._arrived))
        self._given = [self._arrived.popleft() for _ in range(count)]
        return list(self._given)

    def idle(self, until: int) -> None:
        """Keep the connection alive until the file descriptor ``until`` can be read."""
        self._run_until(lambda: False, inf, (until,))

    def _acknowledge_given(self) -> None:
        self._session.acknowledge(self._given)
        self._given = []

    # ── Bytes and time ────────────────────────────────────────────────────────────────────────

    def _expect(self, done: Callable[[], bool]) -> None:
        """Run until ``done``; give up after ``timeout_s`` without progress."""
        self._send()
        before = self._progress()
        while not self._run_until(done, monotonic() + self._timeout_s):
            now = self._progress()
            if now == before:
                raise self._silent()
            before = now

    def _progress(self) -> tuple[int, int]:
        """Return a value that changes as the broker takes and confirms; pings do not count."""
        return self._session.confirmed, len(self._outgoing)

    def _run_until(
        self, done: Callable[[], bool], deadline: float, wake: Sequence[int] = ()
    ) -> bool:
        """Move bytes both ways until ``done``; false at the deadline, or once ``wake`` is ready."""
        while True:
            self._keep_alive_turn(monotonic())
            self._send()
            if done():
                return True
            if monotonic() >= deadline or not self._sleep(deadline, wake):
                return False
            self._read()

    def _keep_alive_turn(self, now: float) -> None:
        if self._keep_alive.is_lost(now):
            self._read()  # the caller may have been away, and the answer unread
            if self._keep_alive.is_lost(now):
                raise self._silent()
        if self._keep_alive.ping_due(now):
            self._session.ping()

    def _sleep(self, deadline: float, wake: Sequence[int]) -> bool:
        """Wait until the socket or the clock is ready; false if ``wake`` is."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        for descriptor in wake:
            poll.register(descriptor, select.POLLIN)
        until = min(deadline, self._keep_alive.next_at)
        wait_ms = None if until == inf else max(0, ceil((until - monotonic()) * 1000))
        return not any(descriptor in wake for descriptor, _ in poll.poll(wait_ms))

    def _send(self) -> None:
        self._outgoing += self._session.data_to_send()
        if not self._outgoing:
            return
        try:
            sent = self._socket.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error) from error
        del self._outgoing[:sent]
        self._keep_alive.sent(monotonic())

    def _lost(self, error: OSError | None = None) -> ConnectionLostError:
        return lost(error) if self._welcome else unanswered(self._socket, error)

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost()
        self._keep_alive.heard()
        for event in self._session.receive(data):
            self._note(event)

    def _note(self, event: SessionEvent) -> None:
        match event:
            case Delivery():
                self._arrived.append(event)
            case SubscribeAnswered(packet_id, return_codes):
                self._granted[packet_id] = return_codes
            case Connected(session_present):
                self._welcome, self.session_present = True, session_present

    def _silent(self) -> ReplyTimeoutError:
        return ReplyTimeoutError(
            f"the broker has not answered for {self._timeout_s:g} s",
            "is it overloaded, or the network down?",
        )


_GONE: Final = (ConnectionLostError, ReplyTimeoutError, BrokerProtocolError)  # no DISCONNECT then
