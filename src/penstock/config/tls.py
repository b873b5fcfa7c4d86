"""The rules of ``[tls]``, and of listeners that need a certificate."""

from collections.abc import Iterator

from penstock.config.address import parse_listener
from penstock.config.problems import ConfigFault
from penstock.config.schema import Config, Tls

TLS_KEYS = frozenset(
    {
        "listen",
        "http_listen",
        "listeners",
        "tls.cert",
        "tls.key",
        "tls.client_ca",
        "tls.client_certs",
        "tls.crl",
        "tls.uri_prefix",
    }
)
"""The options that ``tls_faults`` reads."""

_SET_BOTH = "set tls.cert and tls.key (flags --tls-cert FILE --tls-key FILE)"


def tls_faults(config: Config) -> Iterator[ConfigFault]:
    yield from _file_faults(config.tls)
    if not config.tls.cert:
        yield from _listeners_without_certificate(config)
    if not config.tls.client_ca:
        for at, one in enumerate(config.listeners):
            if one.client_certs in {"optional", "required"}:
                what = "needs tls.client_ca: the authorities that sign clients' certificates"
                yield ConfigFault(what, "set tls.client_ca", f"listeners[{at}].client_certs")


def _file_faults(tls: Tls) -> Iterator[ConfigFault]:
    for name, other in (("cert", "key"), ("key", "cert")):
        if getattr(tls, other) and not getattr(tls, name):
            yield ConfigFault(f"is missing: tls.{other} is set", _SET_BOTH, f"tls.{name}")
    if tls.client_ca and not tls.cert:
        yield ConfigFault("has no effect without tls.cert", _SET_BOTH, "tls.client_ca")
    if not tls.client_ca:
        for name in ("crl", "client_certs"):
            if getattr(tls, name) != getattr(Tls(), name):
                advice = "set tls.client_ca, or remove it"
                yield ConfigFault("has no effect without tls.client_ca", advice, f"tls.{name}")
    if not tls.uri_prefix:
        what = "must not be empty: any URI would name a user"
        yield ConfigFault(what, 'write it as in "urn:penstock:user:"', "tls.uri_prefix")


def _listeners_without_certificate(config: Config) -> Iterator[ConfigFault]:
    for key in ("listen", "http_listen"):
        for text in getattr(config, key):
            address, is_tls = parse_listener(text)
            if is_tls:
                yield ConfigFault(f"tls://{address} needs a certificate", _SET_BOTH, key)
    for at, one in enumerate(config.listeners):
        if one.tls in {"optional", "required"}:
            yield ConfigFault("needs a certificate", _SET_BOTH, f"listeners[{at}].tls")
