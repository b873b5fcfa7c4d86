"""What tests of access share."""

from penstock.testing import Broker

SECRET = "a-secret-of-20-bytes"

LOGIN_REQUIRED = {"anonymous": "deny"}  # for ``Broker(auth=…)``: also of clients on this machine


def as_from_afar(broker: Broker) -> None:
    """Let connections count as those of another machine, which must log in."""
    logins = broker.server.parts.logins
    welcome = logins.welcome
    logins.welcome = lambda origin, *rest: welcome(origin._replace(is_local=False), *rest)
