"""``[[bridges]]``: other MQTT brokers, and what is copied from and to them."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from penstock.config.declaring import Section, about, within

SCHEMES: Final = frozenset({"mqtt", "mqtts"})


class BridgeOptions(Section, frozen=True, kw_only=True):
    """A broker to copy messages from and to."""

    name: Annotated[str, about(form="user"), "What it is called in logs, metrics and lists."]
    url: Annotated[
        str, about(form="bridge_url"), "Its address: mqtt://HOST:PORT, or mqtts:// with TLS."
    ]
    topics_in: Annotated[
        tuple[str, ...], about(form="filter"), "What is copied from there to here."
    ] = ()
    topics_out: Annotated[
        tuple[str, ...], about(form="filter"), "What is copied from here to there."
    ] = ()
    topics_both: Annotated[
        tuple[str, ...], about(form="filter"), "What is copied in both directions."
    ] = ()
    local_prefix: Annotated[str, "What the names of these topics begin with here."] = ""
    remote_prefix: Annotated[str, "What the names of these topics begin with there."] = ""
    qos: Annotated[
        int,
        within(0, 1),
        "QoS of the subscriptions at both ends; 1 copies each message at least once.",
    ] = 1
    client_id: Annotated[str, "Client id there; by default penstock- and the name."] = ""
    user: Annotated[str, "User to log in there."] = ""
    password_file: Annotated[
        str, about(form="secret_file"), "File with that user's password in its first line."
    ] = ""
    tls_ca: Annotated[
        str, "CA certificates to verify the other broker with; by default the system's."
    ] = ""
    tls_cert: Annotated[str, "Certificate to show there."] = ""
    tls_key: Annotated[str, "Key of that certificate."] = ""
    local_user: Annotated[
        str,
        about(form="user"),
        "User of this broker whose rights the bridge has; needed once there are users.",
    ] = ""
    keep_alive_s: Annotated[
        int, within(5, 3600), "Silence after which either end asks whether the other is there."
    ] = 30


def address_fault(url: str) -> str:
    """What is wrong with the address of a broker; empty if nothing is."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in SCHEMES and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        is_whole = False
    if not is_whole:
        return "it is no address of a broker: write mqtt://HOST:PORT, or mqtts://HOST:PORT"
    if parts.username is not None:
        return "it has a user or password, which logs would show: use user and password_file"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "something follows the port; prefixes have options of their own"
    return ""
