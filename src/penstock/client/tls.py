"""The keyword ``tls=`` of the clients: which authority to trust, and who we are.

The broker's certificate is verified, always; a name in it must be the host that was asked for, or
``server_name``. Who wants less has to pass an ``ssl.SSLContext`` that says so.

Python's ``ssl`` is loaded only if TLS is used; see ``penstock.client``.
"""

from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from penstock.client.errors import ArgumentError

if TYPE_CHECKING:
    import ssl

    from penstock.client.tls_channel import TlsSettings

Path: TypeAlias = str | PathLike[str]


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to verify the broker, and our own certificate, if we have one.

    Without ``ca_file`` the authorities of this system are trusted. Files are PEM.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""  # a name in the broker's certificate, if not the host


Tls: TypeAlias = "bool | ssl.SSLContext | TlsOptions | None"
"""The keyword ``tls=``; True is the same as ``TlsOptions()``."""


def tls_settings(tls: Tls) -> "TlsSettings | None":
    """Read the keyword. Raises ArgumentError about a file that cannot be used."""
    if tls is None or tls is False:
        return None
    import ssl  # noqa: PLC0415 - see the module

    from penstock.client.tls_channel import TlsSettings  # noqa: PLC0415

    if isinstance(tls, ssl.SSLContext):
        return TlsSettings(tls)
    options = TlsOptions() if tls is True else tls
    if not isinstance(options, TlsOptions):
        raise ArgumentError("tls is neither True, TlsOptions nor an ssl.SSLContext")
    return TlsSettings(_context(options), options.server_name)


def _context(options: TlsOptions) -> "ssl.SSLContext":
    import ssl  # noqa: PLC0415

    if (options.cert_file is None) is not (options.key_file is None):
        raise ArgumentError("a client certificate needs both cert_file and key_file")
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(f"ca_file {options.ca_file}", error) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.cert_file is not None:
        try:
            context.load_cert_chain(options.cert_file, options.key_file, password=_refuse_prompt)
        except (OSError, ValueError) as error:
            what = f"cert_file {options.cert_file} and key_file {options.key_file}"
            raise _unusable(what, error) from error
    return context


def _refuse_prompt() -> str:
    """Stand in for OpenSSL's prompt, which would wait for a terminal that nobody watches."""
    raise ValueError("the key is encrypted")


def _unusable(what: str, error: Exception) -> ArgumentError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return ArgumentError(f"{what}: {reason}", "give PEM files; penstock certs show FILE reads them")
