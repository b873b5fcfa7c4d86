"""The blocking client of MQTT: a socket and a clock around ``MqttSession`` and ``KeepAlive``.

It speaks MQTT 5 and 3.1.1, by TCP, TLS and WebSocket.

Everything that waits is one loop, ``_run_until``: send, stop if the wanted state is reached, else
sleep in ``poll`` until the socket, the clock or a file descriptor of the caller is ready. It reads
while it sends, so that two ends that both have much to send do not block each other. There is no
thread, and nothing happens between two calls: after one and a half times the keep-alive without a
call the broker closes the connection.

**Confirmed means answered.** ``publish`` returns after PUBACK (QoS 1) or PUBCOMP (QoS 2); with QoS
0 when the system has taken the bytes; ``ping`` then tells whether the broker took them. ``close``
waits until the broker has read everything: it closes its own direction, then reads to the end,
since closing a socket with unread data would make the broker drop what it has not read yet. In
MQTT 5 the broker may answer that it refuses: ``publish`` raises, and the connection stays usable.

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
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from msgspec.structs import replace

from penstock.client.credentials import Credentials
from penstock.client.dial import Connection, dial, host_header, lost, unanswered
from penstock.client.errors import (
    ArgumentError,
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    RefusedError,
    ReplyTimeoutError,
    TakenOverError,
)
from penstock.client.handlers import check_blocking_handler, check_result
from penstock.client.mqtt.connect_request import VERSIONS, ConnectRequest
from penstock.client.mqtt.keep_alive import KeepAlive
from penstock.client.mqtt.properties import PublishProperties, Will
from penstock.client.mqtt.refusals import (
    VersionRefusedError,
    needs_version_5,
    publish_refused,
    subscribe_refused,
)
from penstock.client.mqtt.responses import Responses
from penstock.client.mqtt.responses import response_topic as default_response_topic
from penstock.client.mqtt.session import (
    VERSION_5,
    Authenticated,
    Connected,
    Delivery,
    MqttSession,
    SessionEvent,
    SubscribeAnswered,
    SubscribeOptions,
    UnsubscribeAnswered,
)
from penstock.client.tls import Tls, tls_settings
from penstock.limits import KIB
from penstock.wire.mqtt import events
from penstock.wire.mqtt.properties import Properties
from penstock.wire.mqtt.reason_codes import FAILURE

if TYPE_CHECKING:  # loads ssl
    from penstock.client.tls_channel import TlsSettings

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
    will: Will | events.Will | None = None,
    username: str | None = None,
    password: bytes | None = None,
    timeout_s: float = 10.0,
    tls: Tls = None,
    credentials: Credentials | None = None,
    version: int | None = None,
    websocket: str | None = None,
    session_expiry_s: int | None = None,
    receive_maximum: int | None = None,
    packet_bytes_max: int | None = None,
    topic_aliases: bool = False,
    scram: bool = False,
    user_properties: Sequence[tuple[str, str]] = (),
) -> "Client":
    """Open a connection, to be used in a ``with`` statement; returns when the broker accepted.

    ``clean_session=False`` keeps subscriptions and undelivered messages at the broker between
    connections (3.1.1 needs a ``client_id`` for it). ``keep_alive`` is in seconds, 0 for none; the
    broker may ask for less. ``timeout_s`` is how long the broker may be silent when an answer is
    due, here and later. ``tls=True`` encrypts and verifies the broker's certificate; see
    ``TlsOptions``. ``credentials`` are a user and its password or a token, instead of ``username``
    and ``password``. ``websocket`` is the path, as in ``"/mqtt"``, to connect by WebSocket.

    ``version`` is 5, or 4 for MQTT 3.1.1. By default it is 5, and 3.1.1 with a broker that does not
    speak 5, unless one of these is given, which need 5: ``session_expiry_s``, how long the session
    lives after the connection, also one that began clean; ``receive_maximum`` and
    ``packet_bytes_max``, what the broker may send us at once; ``scram=True``, which logs in without
    showing the password; ``user_properties`` of the connection. With ``topic_aliases`` both ends
    name a topic once and then by a number, which is worth it on narrow links.
    """
    request = ConnectRequest(
        client_id=client_id,
        clean_session=clean_session,
        keep_alive=keep_alive,
        will=will,
        credentials=credentials,
        username=username,
        password=password,
        session_expiry_s=session_expiry_s,
        receive_maximum=receive_maximum,
        packet_bytes_max=packet_bytes_max,
        topic_aliases=topic_aliases,
        scram=scram,
        user_properties=tuple(user_properties),
    )
    request.check()
    _check_path(websocket or "/")
    route = _Route(host, port, timeout_s, tls_settings(tls), websocket)
    what = request.what_needs_5()
    versions = _versions(version, what)
    for asked in versions[:-1]:
        with suppress(VersionRefusedError):
            return _connected(route, request, asked)
    return _connected(route, request, versions[-1])


def _check_path(path: str) -> None:
    is_plain = path.isascii() and path.isprintable() and " " not in path
    if not path.startswith("/") or not is_plain:
        raise ArgumentError(f"websocket is {path!r}", 'it is a path, as in "/mqtt"')


def _versions(version: int | None, what: str) -> tuple[int, ...]:
    """The versions to ask for; ``what`` is what only 5 can say."""
    if version not in {None, 4, 5}:
        raise ArgumentError(f"version is {version}", "it is 5, or 4 for MQTT 3.1.1")
    if version == 4 and what:
        raise ArgumentError(f"{what} needs MQTT 5", "connect without version=4 (--mqtt-version 5)")
    if version is not None:
        return (version,)
    return (5,) if what else VERSIONS


class _Route(NamedTuple):
    """How to reach the broker."""

    host: str
    port: int
    timeout_s: float
    tls: "TlsSettings | None"
    websocket: str | None

    def open(self) -> Connection:
        connection = dial(self.host, self.port, self.timeout_s, self.tls)
        if self.websocket is None:
            return connection
        from penstock.client.websocket import open_websocket  # noqa: PLC0415 - rarely needed

        is_tls = self.tls is not None
        address = host_header(self.host, self.port, is_tls=is_tls)
        return open_websocket(connection, address, self.websocket, self.timeout_s)


def _connected(route: _Route, request: ConnectRequest, version: int) -> "Client":
    session = request.session(version)
    client = Client(route.open(), session, request, route.timeout_s)
    try:
        client.wait_for_welcome()
    except BaseException:
        client.abandon()
        raise
    return client


class Client:
    """A connection to a broker, for one thread; made by ``connect``."""

    def __init__(
        self,
        connection: Connection,
        session: MqttSession,
        request: ConnectRequest,
        timeout_s: float,
    ) -> None:
        connection.setblocking(False)
        self.session_present = False  # the broker had this client's session when it connected
        self.client_id = request.client_id  # the broker chooses one if there is none, in MQTT 5
        self.reason_string = ""  # what the broker last said about a subscription, in its words
        self._socket = connection
        self._session = session
        self._request = request
        self._keep_alive = KeepAlive(request.keep_alive, timeout_s, monotonic())
        self._timeout_s = timeout_s
        self._outgoing = bytearray()
        self._welcome = False
        self._granted: dict[int, list[int]] = {}
        self._response_prefix = ""
        self._responses = Responses()
        self._has_authenticated = False
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

    @property
    def version(self) -> int:
        """The version of MQTT that is spoken: 5, or 4 for 3.1.1."""
        return self._session.version

    @property
    def session_expiry_s(self) -> int | None:
        """How long the broker keeps the session, in seconds, if not as long as we asked."""
        return self._session.limits.session_expiry_s

    # ── Beginning and end ─────────────────────────────────────────────────────────────────────

    def wait_for_welcome(self) -> None:
        """Wait for CONNACK; ``connect`` has done so."""
        self._expect(lambda: self._welcome)

    def reauthenticate(self, credentials: Credentials | None = None) -> None:
        """Prove again, by SCRAM, who we are, as before a password or right expires.

        The user must be the same. The connection goes on meanwhile, and ends if this fails.
        """
        self._has_authenticated = False
        self._session.authenticate(self._request.login(credentials))
        self._expect(lambda: self._has_authenticated)

    def close(self, *, with_will: bool = False, session_expiry_s: int | None = None) -> None:
        """Disconnect. Unacknowledged deliveries stay with the broker.

        In MQTT 5 ``with_will`` has the will published all the same, and ``session_expiry_s``
        changes how long the session lives from now on.
        """
        if self._socket.fileno() < 0:
            return
        try:
            self._session.disconnect(with_will=with_will, session_expiry_s=session_expiry_s)
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

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: PublishProperties | None = None,
    ) -> None:
        """Publish one message; returns when it is confirmed (QoS 1, 2) or sent (QoS 0)."""
        self.publish_many([(topic, payload)], qos, retain=retain, properties=properties)

    def publish_many(
        self,
        messages: Iterable[tuple[str, bytes]],
        qos: int = 0,
        *,
        retain: bool = False,
        window: int = WINDOW,
        properties: PublishProperties | None = None,
    ) -> int:
        """Publish ``(topic, payload)`` pairs in order; return how many, once all are confirmed.

        Up to ``window`` are in flight at once, or fewer if the broker asks for that. If it raises
        because the connection ended, the broker has the first ``confirmed`` of them, and the
        outcome of the others is unknown. If the broker refuses one, ``RefusedError`` is raised when
        those in flight are answered; no more are sent, and the connection stays usable.
        """
        session = self._session
        session.take_refusals()  # of an earlier call that was interrupted
        window = min(window, session.limits.receive_maximum)
        count = gathered = 0
        for topic, payload in messages:
            try:
                session.publish(topic, payload, qos, retain=retain, properties=properties)
            except RefusedError:  # beyond what the broker takes: those before are sent
                self._expect(lambda: not self._outgoing and not session.unconfirmed)
                raise
            count += 1
            gathered += len(topic) + len(payload)
            if gathered >= WRITE_BYTES or session.unconfirmed >= window:
                # Half of the window: a broker that confirms one by one still gets the next
                # messages in large groups.
                self._expect(lambda: not self._outgoing and session.unconfirmed <= window // 2)
                gathered = 0
                if session.refused.count:
                    break
        self._expect(lambda: not self._outgoing and not session.unconfirmed)
        if session.refused.count:
            refused = session.take_refusals()
            raise publish_refused(refused.code, refused.properties, refused.count, count)
        return count

    def ping(self) -> None:
        """Return once the broker has answered, and so has processed all that was sent before.

        It answers in order, and closes the connection on a publish that it does not accept: a ping
        therefore confirms publishes of QoS 0.
        """
        self._session.ping()
        self._expect(lambda: not self._session.pings_unanswered)

    # ── Receiving ─────────────────────────────────────────────────────────────────────────────

    def subscribe(
        self,
        requests: Iterable[tuple[str, int]],
        *,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        subscription_id: int = 0,
        replay: str = "",
    ) -> list[int]:
        """Subscribe to ``(filter, qos)`` pairs; return per pair the QoS granted.

        A code of 128 or more means that the filter was refused; ``reason_string`` may say why.
        ``replay`` asks Penstock for history first: ``"last=100"``, ``"since=-5m"``,
        ``"since=2026-11-15T12:00:00Z"`` or ``"offset=0"``.

        MQTT 5 has more options. With ``no_local`` we do not get what we publish ourselves, with
        ``retain_as_published`` the retain flag is that of the publisher. ``retain_handling`` is 1
        to get retained messages only for a new subscription, 2 for none. ``subscription_id`` comes
        back with each delivery.
        """
        options = SubscribeOptions(
            no_local=no_local,
            retain_as_published=retain_as_published,
            retain_handling=retain_handling,
            subscription_id=subscription_id,
            replay=replay,
        )
        packet_id = self._session.subscribe(requests, options)
        self._expect(lambda: packet_id in self._granted)
        return self._granted.pop(packet_id)

    def unsubscribe(self, filters: Iterable[str]) -> list[int]:
        """Unsubscribe; return per filter 0, or 17 if there was no such subscription.

        MQTT 3.1.1 does not tell: then the list is empty.
        """
        packet_id = self._session.unsubscribe(filters)
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

    # ── Request and response ──────────────────────────────────────────────────────────────────

    def request(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 1,
        timeout_s: float = 10.0,
        properties: PublishProperties | None = None,
        response_topic: str = "",
    ) -> Delivery:
        """Publish a request and return its answer, the first if there are several; needs MQTT 5.

        The answer comes to ``responses/<client id>``, unless ``response_topic`` names another one;
        we must be allowed to subscribe to it. Unless ``properties`` say otherwise, the request
        expires with ``timeout_s``, so that nobody works on it in vain.
        """
        if self._session.version < VERSION_5:
            raise needs_version_5("a request")
        where = response_topic or default_response_topic(self.client_id, self._response_prefix)
        self._await_responses(where)
        correlation = self._responses.expect()
        asked = properties or PublishProperties(expiry_s=ceil(timeout_s))
        asked = replace(asked, response_topic=where, correlation_data=correlation)
        try:
            deadline = monotonic() + timeout_s
            self.publish(topic, payload, qos, properties=asked)
            self._run_until(lambda: self._responses.has(correlation), deadline)
        finally:
            answer = self._responses.take(correlation)
        if answer is None:
            raise ReplyTimeoutError(
                f"nobody has answered the request to {topic} within {timeout_s:g} s",
                "is a responder subscribed to it?",
            )
        return answer

    def _await_responses(self, topic: str) -> None:
        if topic in self._responses.topics:
            return
        [code] = self.subscribe([(topic, 0)], retain_handling=2)
        if code >= FAILURE:
            raise subscribe_refused([topic], code, self.reason_string)
        self._responses.topics.add(topic)

    def reply(
        self,
        request: Delivery,
        payload: bytes,
        qos: int = 1,
        *,
        properties: PublishProperties | None = None,
    ) -> None:
        """Answer a request: publish to its response topic, with its correlation data."""
        asked = request.properties
        if asked.response_topic is None:
            raise ArgumentError("the message names no response topic", "it is no request")
        answer = replace(properties or PublishProperties(), correlation_data=asked.correlation_data)
        self.publish(asked.response_topic, payload, qos, properties=answer)

    def respond(
        self,
        topic_filter: str,
        handler: Callable[[Delivery], bytes],
        *,
        qos: int = 1,
        timeout_s: float | None = None,
    ) -> None:
        """Answer each request that matches ``topic_filter`` with what ``handler`` returns.

        It returns after ``timeout_s``, or never. A request is acknowledged after its answer was
        sent. Messages without a response topic are skipped. Several responders share the work with
        a filter such as ``$share/solvers/solve``.
        """
        check_blocking_handler(handler)
        [code] = self.subscribe([(topic_filter, qos)])
        if code >= FAILURE:
            raise subscribe_refused([topic_filter], code, self.reason_string)
        for delivery in self.messages(timeout_s):
            if delivery.properties.response_topic is not None:
                answer = handler(delivery)
                check_result(answer)
                self.reply(delivery, answer)

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
            self._read_last_words()
            raise self._lost(error) from error
        del self._outgoing[:sent]
        self._keep_alive.sent(monotonic())

    def _read_last_words(self) -> None:
        """Read what came before the end: in MQTT 5 the broker says why, which is raised then."""
        with suppress(OSError):
            while data := self._socket.recv(READ_BYTES):
                self._session.receive(data)

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
                if not self._responses.takes(event):
                    self._arrived.append(event)
            case SubscribeAnswered(packet_id, codes, reason):
                self._granted[packet_id], self.reason_string = codes, reason
            case UnsubscribeAnswered(packet_id, codes):
                self._granted[packet_id] = codes
            case Authenticated():
                self._has_authenticated = True
            case Connected(session_present, properties):
                self._welcome, self.session_present = True, session_present
                self._agree(properties)

    def _agree(self, properties: Properties) -> None:
        """What the broker decides about the connection."""
        if properties.assigned_client_id is not None:
            self.client_id = properties.assigned_client_id.decode()
        if properties.server_keep_alive is not None:
            keep_alive = properties.server_keep_alive
            self._keep_alive = KeepAlive(keep_alive, self._timeout_s, monotonic())
        self._response_prefix = (properties.response_information or b"").decode()

    def _silent(self) -> ReplyTimeoutError:
        return ReplyTimeoutError(
            f"the broker has not answered for {self._timeout_s:g} s",
            "is it overloaded, or the network down?",
        )


# no DISCONNECT then
_GONE: Final = (ConnectionLostError, TakenOverError, ReplyTimeoutError, BrokerProtocolError)
