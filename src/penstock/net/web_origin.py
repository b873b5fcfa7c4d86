"""Which web pages may speak to the broker, by what a browser says: ``Host`` and ``Origin``.

A browser reaches loopback addresses on behalf of any page, and a page can have its own name point
here (DNS rebinding). So a host is believed if it is an address, ``localhost`` or a configured name,
or if the connection is encrypted: then the browser has checked that our certificate has the name.
"""

import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

_PORT = re.compile(r":[0-9]*\Z")


def without_port(header: str) -> str:
    return header if header.endswith("]") else _PORT.sub("", header)


def is_known_host(header: str, names: Collection[str], *, is_encrypted: bool) -> bool:
    """Whether a Host header cannot be a name that somebody else points here."""
    if is_encrypted:
        return True
    host = without_port(header)
    try:
        ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        return host.lower() in {"localhost", *names}
    return True


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page was loaded from the very host that it calls."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # an unclosed bracket, for one
        return False
