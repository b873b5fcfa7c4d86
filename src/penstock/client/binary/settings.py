"""The keywords of the clients, and what is built of them; the same for blocking and asyncio ones.

============================  ====================================================================
``host``, ``port``            address of the broker: 127.0.0.1, 1883
``backoff``                   how to reconnect: ``Backoff``. Publishers give up after a minute,
                              subscribers never
``keep_alive_s``              ping after this time without traffic, 60; 0 for never. The connection
                              is given up after three times as long without a byte
``connect_timeout_s``         time limit of one attempt to connect, 10
``tls``                       True, ``TlsOptions`` or an ``ssl.SSLContext``: encrypt, and verify the
                              broker's certificate
``credentials``               ``Credentials``: a user and its password, a token, or a device's key
``signing_key``               (publishers) key file of ``penstock keys new``, or a ``SigningKey``
``auto_ack``                  (subscribers) acknowledge when the application asks for the next
                              message, true; else ``Message.ack`` does
``keyring``                   (subscribers) public keys by key id, to verify messages against: 32
                              bytes, 64 hexadecimal digits, or the path of a ``*.key.json``
``require_signature``         (subscribers) hand out only messages signed by one of these keys
``on_lost``                   (subscribers) called when retention removed unread messages
``on_withheld``               (subscribers) called with messages that could not be verified
============================  ====================================================================
"""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Final, TypedDict, Unpack

from penstock.client.binary.inbox import Message, MessageInbox
from penstock.client.binary.manager import ConnectionManager, Options
from penstock.client.binary.session import BinarySession, Lost
from penstock.client.binary.signing import PublicKey, SigningKey, signer
from penstock.client.binary.timing import Backoff
from penstock.client.credentials import Credentials
from penstock.client.tls import Tls
from penstock.errors import LocalProtocolError

PUBLISHER_BACKOFF: Final = Backoff(give_up_s=60.0)


class ConnectionKeywords(TypedDict, total=False):
    """Keywords of all clients; see the module."""

    host: str
    port: int
    backoff: Backoff
    keep_alive_s: float
    connect_timeout_s: float
    tls: Tls
    credentials: Credentials | None


class PublisherKeywords(ConnectionKeywords, total=False):
    """Keywords of publishers; see the module."""

    signing_key: SigningKey | str | PathLike[str] | None


class SubscriberKeywords(ConnectionKeywords, total=False):
    """Keywords of subscribers; see the module."""

    auto_ack: bool
    keyring: Mapping[int, PublicKey] | None
    require_signature: bool
    on_lost: Callable[[Lost], None] | None
    on_withheld: Callable[[Message], None] | None


def publisher_manager(
    *,
    signing_key: SigningKey | str | PathLike[str] | None = None,
    **connection: Unpack[ConnectionKeywords],
) -> ConnectionManager:
    connection.setdefault("backoff", PUBLISHER_BACKOFF)
    session = BinarySession(sign=signer(signing_key))
    return ConnectionManager(session, MessageInbox(session.acks), Options(**connection))


def subscriber_manager(
    client_id: str,
    topics: Iterable[str],
    *,
    auto_ack: bool = True,
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
    session = BinarySession(client_id)
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
