"""What a client asks for when it connects, in either version of MQTT."""

from os import urandom
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.client.credentials import Credentials
from penstock.client.errors import ArgumentError
from penstock.client.mqtt.properties import SECONDS_MAX, Will
from penstock.client.mqtt.session import RECEIVE_MAXIMUM, MqttSession
from penstock.wire.mqtt import events
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX

if TYPE_CHECKING:  # loads hashlib
    from penstock.client.mqtt.login import ScramLogin

VERSIONS: Final = (5, 4)  # asked for in this order, unless the caller names one
NEVER: Final = SECONDS_MAX  # a session that does not expire, as far as the broker allows


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """See the keywords of ``connect``."""

    client_id: str
    clean_session: bool
    keep_alive: int
    will: Will | events.Will | None
    credentials: Credentials | None
    username: str | None
    password: bytes | None
    session_expiry_s: int | None
    receive_maximum: int | None
    packet_bytes_max: int | None
    topic_aliases: bool
    scram: bool
    user_properties: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"ConnectRequest({self.client_id!r}, …)"

    def check(self) -> None:
        """Raises ArgumentError about what no broker can be asked."""
        if self.credentials is not None:
            if self.username is not None or self.password is not None:
                raise ArgumentError("credentials and username or password: give one of them")
            if self.credentials.has_key:
                raise ArgumentError("MQTT has no login with a key", "use a password or a token")
        elif self.scram:
            raise ArgumentError(
                "scram needs credentials", "give Credentials(user, password_file=…) (--user)"
            )
        expiry, maximum, size = self.session_expiry_s, self.receive_maximum, self.packet_bytes_max
        if expiry is not None and not 0 <= expiry <= SECONDS_MAX:
            raise ArgumentError(f"session_expiry_s is {expiry}", "give seconds, from 0 on")
        if maximum is not None and not 1 <= maximum <= RECEIVE_MAXIMUM:
            raise ArgumentError(f"receive_maximum is {maximum}", "it is 1 to 65535")
        if size is not None and not 1 <= size <= REMAINING_LENGTH_MAX:
            raise ArgumentError(f"packet_bytes_max is {size}", f"it is 1 to {REMAINING_LENGTH_MAX}")

    def what_needs_5(self) -> str:
        """The first thing asked for that 3.1.1 cannot say; empty if there is none."""
        asked = {
            "session_expiry_s": self.session_expiry_s is not None,
            "receive_maximum": self.receive_maximum is not None,
            "packet_bytes_max": self.packet_bytes_max is not None,
            "scram": self.scram,
            "user_properties": bool(self.user_properties),
            "a will with properties or a delay": isinstance(self.will, Will)
            and self.will.needs_version_5,
        }
        return next((name for name, is_asked in asked.items() if is_asked), "")

    def session(self, version: int) -> MqttSession:
        """A session that has begun with CONNECT. Raises LoginFailedError about a file."""
        session = MqttSession(
            version,
            receive_maximum=self.receive_maximum or RECEIVE_MAXIMUM,
            packet_bytes_max=self.packet_bytes_max or REMAINING_LENGTH_MAX,
            topic_aliases=self.topic_aliases and version > 4,
        )
        login = self.login() if self.scram else None
        username, password = self.username, self.password
        if self.credentials is not None and login is None:
            username, password = self.credentials.user, self.credentials.secret()
        session.connect(
            self.client_id,
            clean_session=self.clean_session,
            keep_alive=self.keep_alive,
            will=self.will.as_packet() if isinstance(self.will, Will) else self.will,
            username=username,
            password=password,
            session_expiry_s=self._expiry(),
            user_properties=self.user_properties,
            login=login,
        )
        return session

    def login(self, credentials: Credentials | None = None) -> "ScramLogin":
        """A new proof that we know the password."""
        from penstock.client.mqtt.login import ScramLogin  # noqa: PLC0415 - rarely needed

        chosen = credentials or self.credentials
        if chosen is None:
            raise ArgumentError("SCRAM needs credentials")
        return ScramLogin(chosen, urandom(18).hex().encode())

    def _expiry(self) -> int:
        """By default a session lives as in 3.1.1: as long as the connection, or for ever."""
        if self.session_expiry_s is not None:
            return self.session_expiry_s
        return 0 if self.clean_session else NEVER
