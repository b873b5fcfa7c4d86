"""Logging in by SCRAM-SHA-256, where the password never leaves this process.

The nonce is given, so there is no randomness here. The broker proves itself, too: it must know the
verifier of the password.
"""

from typing import Final

from penstock.client.credentials import Credentials
from penstock.client.errors import ArgumentError, BrokerProtocolError, LoginFailedError
from penstock.errors import Refused, RemoteProtocolError
from penstock.trust.scram import METHOD, ScramClient
from penstock.wire.mqtt.properties import Properties

_METHOD: Final = METHOD.encode()


class ScramLogin:
    """One login, or one later proof that the credentials still hold."""

    def __init__(self, credentials: Credentials, nonce: bytes) -> None:
        if not credentials.user:
            advice = "give Credentials(user, …) (--user)"
            raise ArgumentError("SCRAM needs a user and its password", advice)
        try:
            password = credentials.secret().decode()
        except UnicodeDecodeError:
            raise ArgumentError("a password for SCRAM is text in UTF-8") from None
        self._scram = ScramClient(credentials.user, password, nonce)

    def first(self) -> Properties:
        return _properties(self._scram.first)

    def final(self, challenge: Properties) -> Properties:
        """What to answer to the broker's challenge. It takes a fraction of a second."""
        try:
            return _properties(self._scram.final(_data(challenge)))
        except RemoteProtocolError as error:
            raise BrokerProtocolError(error.message, error.advice) from error

    def check(self, last: Properties) -> None:
        """Raises unless the broker has proved itself."""
        try:
            self._scram.check(_data(last))
        except RemoteProtocolError as error:
            raise BrokerProtocolError(error.message, error.advice) from error
        except Refused as error:
            raise LoginFailedError(error.message, error.advice) from error


def _properties(data: bytes) -> Properties:
    return Properties(authentication_method=_METHOD, authentication_data=data)


def _data(properties: Properties) -> bytes:
    if properties.authentication_method != _METHOD:
        raise BrokerProtocolError(f"the broker left {METHOD} in the middle of a login")
    return properties.authentication_data or b""
