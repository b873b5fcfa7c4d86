"""Enhanced authentication of MQTT 5: a login by SCRAM-SHA-256, in CONNECT and again later.

::

    CONNECT method, client-first  ->  AUTH 0x18 server-first  ->  AUTH 0x18 client-final
    ->  CONNACK 0x00 method, server-final

    AUTH 0x19 client-first  ->  AUTH 0x18 server-first  ->  AUTH 0x18 client-final
    ->  AUTH 0x00 server-final

Until CONNACK nothing but AUTH and DISCONNECT may come, which the machine sees to; the client is a
stranger until then, with a stranger's time and room. Later everything else goes on meanwhile, with
the rights that the client had. It stays the same user.

A client that named no method in CONNECT sends no AUTH, and gets none.
"""

from typing import ClassVar, Protocol

from penstock.access.logins import LoginDone, LoginRefusal, Logins
from penstock.access.scram_logins import ScramLogin
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.trust.scram import METHOD
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import Auth
from penstock.wire.mqtt.properties import Properties
from penstock.wire.mqtt.reason_codes import ReasonCode

SCRAM = METHOD.encode()

PROOF_BYTES = len("v=") + 44  # of a server-final message: a hash of 32 bytes in base64
SIZED_PROOF = Properties(authentication_method=SCRAM, authentication_data=bytes(PROOF_BYTES))
"""As large as what CONNACK will say, to know in time whether that fits the client."""


class AuthenticatedClient(Protocol):
    """The connection whose client proves who it is."""

    protocol_name: ClassVar[str]
    client_id: bytes
    origin: Origin
    principal: Principal

    def send(self, data: bytes) -> None: ...
    def become(self, principal: Principal) -> None: ...
    def principal_changed(self) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class MqttAuthentication:
    """What one connection proves, from CONNECT on."""

    __slots__ = ("_bytes_max", "_client", "_finished", "_login", "_logins")

    def __init__(self, logins: Logins, client: AuthenticatedClient, packet_bytes_max: int) -> None:
        """``packet_bytes_max``: the largest packet that the client takes."""
        self._logins = logins
        self._client = client
        self._bytes_max = packet_bytes_max
        self._login: ScramLogin | None = None  # that waits for the client's last message
        self._finished: ScramLogin | None = None  # whose last message is to be sent

    def begin(self, data: bytes | None, done: LoginDone) -> None:
        """CONNECT names the method; ``done`` is called with who it is, or why not."""
        self._challenge(data, done)

    def accepted(self) -> Properties:
        """What CONNACK tells the client: method, and the broker's own proof."""
        return self._last_words()

    def take(self, event: Auth) -> None:
        """AUTH, before or after CONNACK."""
        if fault := self._fault_of(event):
            self._client.close(DisconnectReason.PROTOCOL_VIOLATION, f"AUTH {fault}")
            return
        data, login = event.properties.authentication_data, self._login
        if login is None:
            self._challenge(data, self._proved_again, holder=self._client.principal.user)
            return
        self._login, self._finished = None, login
        login.finish(data or b"")

    def _fault_of(self, event: Auth) -> str:
        if event.properties.authentication_method != SCRAM:  # [MQTT5-4.12.0-5]
            return "with another method than CONNECT"
        if event.code == ReasonCode.CONTINUE_AUTHENTICATION:
            return "" if self._login is not None else "that continues nothing"
        if event.code != ReasonCode.RE_AUTHENTICATE:
            return "of a client that says success"
        if self._login is not None:  # so it is before CONNACK, too
            return "that begins before the last one has ended"
        return ""

    def _challenge(self, data: bytes | None, done: LoginDone, holder: str = "") -> None:
        client = self._client
        self._login = self._logins.begin_scram(
            client.origin,
            client.protocol_name,
            client.client_id,
            data or b"",
            done,
            holder=holder,
        )
        if self._login is not None:
            words = Properties(authentication_method=SCRAM, authentication_data=self._login.first)
            self._send(ReasonCode.CONTINUE_AUTHENTICATION, words)

    def _send(self, code: ReasonCode, words: Properties) -> None:
        packet = encode.auth(code, words)
        if len(packet) > self._bytes_max:  # [MQTT5-3.1.2-24]
            detail = f"AUTH of {len(packet)} bytes, the client takes {self._bytes_max}"
            self._client.close(DisconnectReason.PACKET_TOO_LARGE, detail)
        else:
            self._client.send(packet)

    def _proved_again(self, result: Principal | LoginRefusal) -> None:
        client = self._client
        if isinstance(result, LoginRefusal):
            client.close(result.reason, result.text)
            return
        self._send(ReasonCode.SUCCESS, self._last_words())
        client.become(result)
        client.principal_changed()

    def _last_words(self) -> Properties:
        finished, self._finished = self._finished, None
        last = b"" if finished is None else finished.last
        return Properties(authentication_method=SCRAM, authentication_data=last)
