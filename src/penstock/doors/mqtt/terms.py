"""What a client and the broker agree on when they connect: what CONNECT asks for, within limits.

CONNACK of MQTT 5 tells the client what it gets. 3.1.1 has nothing to negotiate, only a keep-alive
and a clean session, so its terms follow from these. Most clients of a broker have the same terms:
they share one object.
"""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from penstock.config.schema import Limits, Mqtt
from penstock.limits import KEEP_ALIVE_S_MAX
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.decode import LEVEL_5
from penstock.wire.mqtt.events import Connect
from penstock.wire.mqtt.properties import NONE, Properties

PACKET_BYTES_UNLIMITED = 1 << 32  # of a client that names no maximum
RECEIVE_MAXIMUM_DEFAULT = 65_535
QOS_MAX = 2

# what holds if CONNACK does not say it
_DEFAULTS = {
    "receive_maximum": RECEIVE_MAXIMUM_DEFAULT,
    "topic_alias_maximum": 0,
    "retain_available": 1,
    "wildcard_available": 1,
    "subscription_ids_available": 1,
    "shared_available": 1,
}


class Terms(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What holds for one connection."""

    version: int  # protocol level: 4 or 5
    clean_start: bool  # whether to forget the session that was there
    expiry_s: int  # how long the session outlives the connection; -1: 3.1.1 does not say
    keep_alive_s: int  # 0: for ever
    is_expiry_capped: bool = False
    is_keep_alive_capped: bool = False
    receive_maximum: int = 0  # deliveries in flight that the client takes; 0: it names no limit
    packet_bytes_max: int = PACKET_BYTES_UNLIMITED  # of a packet to the client
    alias_max: int = 0  # the highest topic alias in packets to the client
    wants_reasons: bool = True  # whether packets other than CONNACK and DISCONNECT may say why
    wants_response_information: bool = False

    @property
    def is_5(self) -> bool:
        return self.version >= LEVEL_5

    @property
    def has_size_limit(self) -> bool:
        return self.packet_bytes_max < PACKET_BYTES_UNLIMITED

    @property
    def is_lasting(self) -> bool:
        """Whether the session outlives the connection."""
        return self.expiry_s > 0 if self.expiry_s >= 0 else not self.clean_start


STRANGER_TERMS = Terms(version=4, clean_start=True, expiry_s=-1, keep_alive_s=0)


def terms_of(event: Connect, limits: Limits) -> Terms:
    keep_alive_s = _keep_alive(event.keep_alive, limits.keep_alive_s_max)
    if event.version < LEVEL_5:
        return _shared(4, event.clean_session, -1, keep_alive_s)
    asked = event.properties
    expiry_s = min(asked.session_expiry or 0, limits.session_expiry_s)
    return _shared(
        5,
        event.clean_session,
        expiry_s,
        keep_alive_s,
        is_expiry_capped=expiry_s != (asked.session_expiry or 0),
        is_keep_alive_capped=keep_alive_s != event.keep_alive,
        receive_maximum=asked.receive_maximum or RECEIVE_MAXIMUM_DEFAULT,
        packet_bytes_max=asked.maximum_packet_size or PACKET_BYTES_UNLIMITED,
        alias_max=asked.topic_alias_maximum or 0,
        wants_reasons=asked.request_problem_information != 0,
        wants_response_information=asked.request_response_information == 1,
    )


@lru_cache(maxsize=256)
def _shared(
    version: int, clean_start: bool, expiry_s: int, keep_alive_s: int, **more: int
) -> Terms:
    return Terms(
        version=version,
        clean_start=clean_start,
        expiry_s=expiry_s,
        keep_alive_s=keep_alive_s,
        **more,  # type: ignore[arg-type]  # the names are those of the fields
    )


def _keep_alive(asked_s: int, maximum_s: int) -> int:
    """What the client asked for, unless the operator caps it; 0 is for ever."""
    if maximum_s >= KEEP_ALIVE_S_MAX:
        return asked_s
    return min(asked_s or maximum_s, maximum_s)


def welcome(
    terms: Terms,
    limits: Limits,
    settings: Mqtt,
    *,
    session_present: bool,
    assigned_id: bytes,
    proof: Properties = NONE,
) -> bytes:
    """CONNACK; ``assigned_id`` is empty if the client had an id of its own.

    ``proof`` ends the authentication of a client that named a method. Empty if the client takes no
    packet of that size, even without what it assumes if it is told nothing.
    """
    if not terms.is_5:
        return encode.connack(session_present, 0)
    information = settings.response_information if terms.wants_response_information else ""
    properties = Properties(
        session_expiry=terms.expiry_s if terms.is_expiry_capped else None,
        assigned_client_id=assigned_id or None,
        server_keep_alive=terms.keep_alive_s if terms.is_keep_alive_capped else None,
        authentication_method=proof.authentication_method,
        authentication_data=proof.authentication_data,
        response_information=information.encode() or None,
        receive_maximum=limits.receive_maximum,
        topic_alias_maximum=settings.topic_alias_maximum,
        maximum_qos=settings.maximum_qos if settings.maximum_qos < QOS_MAX else None,
        retain_available=int(settings.retain_available),
        maximum_packet_size=limits.packet_bytes_max,
        wildcard_available=1,
        subscription_ids_available=1,
        shared_available=1,
    )
    packet = encode.connack(session_present, 0, properties)
    if len(packet) > terms.packet_bytes_max:
        packet = encode.connack(session_present, 0, _without_defaults(properties))
    return packet if len(packet) <= terms.packet_bytes_max else b""


def _without_defaults(properties: Properties) -> Properties:
    same = [name for name, value in _DEFAULTS.items() if getattr(properties, name) == value]
    return replace(properties, **dict.fromkeys(same))
