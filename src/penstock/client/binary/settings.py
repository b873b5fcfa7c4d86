"""The keywords of the clients, and what is built of them; the same for blocking and asyncio ones.

============================  ====================================================================
``host``, ``port``            address of the broker: 127.0.0.1, 1883
``nodes``                     addresses of a cluster, ``["a:1883", "b:1883"]``, in place of ``host``
                              and ``port``; tried in turn
``backoff``                   how to reconnect: ``Backoff``. Publishers give up after a minute,
                              subscribers never
``keep_alive_s``              ping after this time without traffic, 60; 0 for never. The connection
                              is given up after three times as long without a byte
``connect_timeout_s``         time limit of one attempt to connect, 10
``tls``                       True, ``TlsOptions`` or an ``ssl.SSLContext``: encrypt, and verify the
                              broker's certificate
``credentials``               ``Credentials``: a user and its password, a token, or a device's key
``client_id``                 (publishers) name under which repetitions are recognised; a random
                              one. Needed where the user may have certain client ids only
``signing_key``               (publishers) key file of ``penstock keys new``, or a ``SigningKey``
``auto_ack``                  (subscribers) acknowledge when the application asks for the next
                              message, true; else ``Message.ack`` does
``start``                     (subscribers) where to begin if the broker knows no progress:
                              ``"earliest"`` (the default), ``"latest"``, ``"last=10"``,
                              ``"since=-5m"`` or ``"since=2026-11-15T12:00:00Z"``
``prefetch``                  (subscribers) messages that the broker sends ahead of
                              acknowledgements; as many as it likes, jobs 64
``retained_first``            (subscribers) begin with the retained messages, also of a filter
``keyring``                   (subscribers) public keys by key id, to verify messages against: 32
                              bytes, 64 hexadecimal digits, or the path of a ``*.key.json``
``require_signature``         (subscribers) hand out only messages signed by one of these keys
``on_lost``                   (subscribers) called when retention removed unread messages
``on_withheld``               (subscribers) called with messages that could not be verified
============================  ====================================================================
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from secrets import token_bytes, token_hex
from time import time_ns
from typing import Final, TypedDict, Unpack

from penstock.client.binary.inbox import Message, MessageInbox
from penstock.client.binary.manager import ConnectionManager, Options
from penstock.client.binary.session import BinarySession, Lost
from penstock.client.binary.signing import PublicKey, SigningKey, signer
from penstock.client.binary.timing import Backoff
from penstock.client.credentials import Credentials
from penstock.client.tls import Tls
from penstock.errors import LocalProtocolError
from penstock.model.history_start import parse_start
from penstock.wire.binary.fields import EPOCH_BYTES, Feature, HelloFields, SubscribeFields

_STARTS: Final = '"earliest", "latest", "last=10", "since=-5m" or a time'

PUBLISHER_BACKOFF: Final = Backoff(give_up_s=60.0)


class ConnectionKeywords(TypedDict, total=False):
    """Keywords of all clients; see the module."""

    host: str
    port: int
    nodes: str | Sequence[str]
    backoff: Backoff
    keep_alive_s: float
    connect_timeout_s: float
    tls: Tls
    credentials: Credentials | None


class PublisherKeywords(ConnectionKeywords, total=False):
    """Keywords of publishers; see the module."""

    client_id: str
    signing_key: SigningKey | str | PathLike[str] | None


class SubscriberKeywords(ConnectionKeywords, total=False):
    """Keywords of subscribers; see the module."""

    auto_ack: bool
    start: str
    prefetch: int
    retained_first: bool
    keyring: Mapping[int, PublicKey] | None
    require_signature: bool
    on_lost: Callable[[Lost], None] | None
    on_withheld: Callable[[Message], None] | None


def publisher_manager(
    *,
    client_id: str = "",
    signing_key: SigningKey | str | PathLike[str] | None = None,
    **connection: Unpack[ConnectionKeywords],
) -> ConnectionManager:
    connection.setdefault("backoff", PUBLISHER_BACKOFF)
    client_id = client_id or f"publisher-{token_hex(8)}"
    session = BinarySession(client_id, signer(signing_key), _hello())
    return ConnectionManager(session, MessageInbox(session.acks), Options(**connection))


def _hello() -> HelloFields:
    features = Feature.CODED_ERRORS | Feature.DEDUPLICATION
    return HelloFields(features, epoch=token_bytes(EPOCH_BYTES))


def _fields(start: str, prefetch: int, *, retained_first: bool) -> SubscribeFields:
    begin, is_from_now = None, start == "latest"
    if start not in {"earliest", "latest"}:
        begin = parse_start(start, time_ns() // 1_000_000)
        if begin is None or begin.offset:
            raise LocalProtocolError(f"no start: {start!r}", _STARTS)
    if not 0 <= prefetch < 1 << 16:
        raise LocalProtocolError(f"a prefetch of {prefetch}", "from 1 to 65535")
    return SubscribeFields(begin, is_from_now, prefetch, retained_first)


def subscriber_manager(
    client_id: str,
    topics: Iterable[str],
    *,
    auto_ack: bool = True,
    start: str = "earliest",
    prefetch: int = 0,
    retained_first: bool = False,
    keyring: Mapping[int, PublicKey] | None = None,
    require_signature: bool = False,
    on_lost: Callable[[Lost], None] | None = None,
    on_withheld: Callable[[Message], None] | None = None,
    **connection: Unpack[ConnectionKeywords],
) -> ConnectionManager:
    if not client_id:
        raise LocalProtocolError(
            "a subscriber without a client id", "the broker stores acknowledgements under it"
        )
    fields = _fields(start, prefetch, retained_first=retained_first)
    session = BinarySession(client_id, hello=_hello(), fields=fields)
    inbox = MessageInbox(
        session.acks,
        auto_ack=auto_ack,
        keyring=keyring,
        require_signature=require_signature,
        on_lost=on_lost,
        on_withheld=on_withheld,
    )
    for topic in topics:
        session.follow(topic)
    return ConnectionManager(session, inbox, Options(**connection))
