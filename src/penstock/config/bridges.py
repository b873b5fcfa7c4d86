"""The rules of ``[[bridges]]``."""

from collections.abc import Iterator

from penstock.config.bridge_options import BridgeOptions
from penstock.config.problems import ConfigFault
from penstock.config.schema import Config


def bridge_faults(config: Config) -> Iterator[ConfigFault]:
    names: set[str] = set()
    for at, one in enumerate(config.bridges):
        key = f"bridges[{at}]"
        if one.name in names:
            what = f"two bridges are called {one.name!r}"
            yield ConfigFault(what, "their sessions have that name: give each its own", key)
        names.add(one.name)
        yield from (ConfigFault(*fault) for fault in _faults(one, key))


def _faults(one: BridgeOptions, key: str) -> Iterator[tuple[str, str, str]]:
    if not (one.topics_in or one.topics_out or one.topics_both):
        yield "copies nothing", 'add topics_in = ["#"], topics_out or topics_both', key
    for option in ("local_prefix", "remote_prefix"):
        prefix: str = getattr(one, option)
        if {"+", "#"}.intersection(prefix) or prefix.startswith("$"):
            yield (
                "is the beginning of a name, not a filter",
                'write it as in "old/"',
                (f"{key}.{option}"),
            )
    if one.password_file and not one.user:
        yield "a password needs a user", 'add user = "NAME"', f"{key}.password_file"
    if one.user and not one.password_file:
        yield "a user needs a password", "add password_file", f"{key}.user"
    if not one.url.startswith("mqtts:") and (one.tls_ca or one.tls_cert or one.tls_key):
        yield "has no effect without TLS", 'write url = "mqtts://…"', f"{key}.url"
    if bool(one.tls_cert) is not bool(one.tls_key):
        yield (
            "a certificate needs its key, and a key its certificate",
            "give both",
            (f"{key}.tls_cert"),
        )
