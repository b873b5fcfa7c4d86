"""``mqtt://HOST[:PORT]`` and, with TLS, ``mqtts://HOST[:PORT]``, as other tools write brokers.

A password has no place in it: addresses end up in logs and in ``ps``. Nor has a user, whose
password would have to come from elsewhere: that is what ``credentials`` are for.
"""

from typing import Any, Final
from urllib.parse import urlsplit

from penstock.client.errors import ArgumentError
from penstock.client.mqtt.client import Client, connect

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_FORM: Final = "write mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS"


def connect_to_url(url: str, *arguments: Any, **keywords: Any) -> Client:
    """Connect; arguments after the URL are those of ``connect`` after the port."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ArgumentError("this is no address of a broker", _FORM) from None
    if parts.username is not None or parts.password is not None:
        what = "an address with a user or password: logs and ps would show it"
        raise ArgumentError(what, "give credentials=Credentials(user, password_file=…)")
    is_plain = parts.path in {"", "/"} and not parts.query and not parts.fragment
    if parts.scheme not in PORTS or not host or not is_plain or "port" in keywords:
        raise ArgumentError(f"{url!r} is no address of a broker", _FORM)
    if parts.scheme == "mqtts":
        keywords["tls"] = keywords.get("tls") or True
    elif keywords.get("tls"):
        raise ArgumentError(f"{url!r} is without TLS", "write mqtts://")
    return connect(host, port or PORTS[parts.scheme], *arguments, **keywords)
