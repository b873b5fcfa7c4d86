"""How Spark jobs log in and encrypt: by files, which each process reads for itself.

Spark pickles options to executors, and shows them in plans, logs and its web pages. So there is no
option for a password or a token, only for the name of a file with it. The file must exist wherever
a task runs, with the same name: as a secret of the pods, or by ``spark.files``.

What no option says, the environment of the driver does, with the variables of the command line. So
jobs of ``penstock spark run`` log in, too.
"""

import os
from collections.abc import Mapping
from typing import Final, TypedDict

import msgspec

from penstock.client.credentials import Credentials
from penstock.client.tls import TlsOptions
from penstock.spark.options_text import Given, boolean, option_error

_LOGIN: Final = ("user", "passwordFile", "tokenFile")
NAMES: Final = (
    *_LOGIN,
    *("tls", "tlsCaFile", "tlsCertFile", "tlsKeyFile", "tlsServerName"),
)


class ClientKeywords(TypedDict):
    """Keywords of ``QueueClient``."""

    tls: TlsOptions | None
    credentials: Credentials | None


class BrokerLogin(msgspec.Struct, frozen=True):
    """Names of files, never their content; the default is no login and no TLS."""

    user: str = ""
    password_file: str = ""
    token_file: str = ""
    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""

    def keywords(self) -> ClientKeywords:
        """What a client of this process is made with; reads nothing but certificates."""
        return ClientKeywords(tls=self._tls(), credentials=self._credentials())

    def _tls(self) -> TlsOptions | None:
        if not self.tls:
            return None
        return TlsOptions(
            ca_file=self.ca_file or None,
            cert_file=self.cert_file or None,
            key_file=self.key_file or None,
            server_name=self.server_name,
        )

    def _credentials(self) -> Credentials | None:
        if self.token_file:
            return Credentials(token_file=self.token_file)
        return Credentials(self.user, password_file=self.password_file) if self.user else None


NO_LOGIN: Final = BrokerLogin()


_VARIABLES: Final = {
    "user": "PENSTOCK_USER",
    "passwordFile": "PENSTOCK_PASSWORD_FILE",
    "tokenFile": "PENSTOCK_TOKEN_FILE",
    "tlsCaFile": "PENSTOCK_CA_FILE",
}


def login_of(given: Given, environ: Mapping[str, str] = os.environ) -> BrokerLogin:
    """Read the options, then the environment. Raises ConfigError."""
    texts = {name: given.get(name.lower(), "").strip() for name in NAMES if name != "tls"}
    if not (texts["user"] or texts["passwordFile"] or texts["tokenFile"]):
        texts |= {name: environ.get(_VARIABLES[name], "") for name in _LOGIN}
    if not any(name.lower() in given for name in NAMES if name.startswith("tls")):
        texts["tlsCaFile"] = environ.get(_VARIABLES["tlsCaFile"], "")
    _check_user(texts)
    of_tls = [name for name in texts if name.startswith("tls") and texts[name]]
    is_encrypted = boolean(given, "tls", default=bool(of_tls))
    if of_tls and not is_encrypted:
        raise option_error(of_tls[0], "contradicts tls=false", "remove one of them")
    if bool(texts["tlsCertFile"]) is not bool(texts["tlsKeyFile"]):
        raise option_error("tlsCertFile", "needs tlsKeyFile, and that one it", "give both")
    return BrokerLogin(
        texts["user"],
        texts["passwordFile"],
        texts["tokenFile"],
        is_encrypted,
        texts["tlsCaFile"],
        texts["tlsCertFile"],
        texts["tlsKeyFile"],
        texts["tlsServerName"],
    )


def _check_user(texts: dict[str, str]) -> None:
    if texts["tokenFile"] and (texts["user"] or texts["passwordFile"]):
        raise option_error("tokenFile", "contradicts user", "a token has its own user")
    if bool(texts["user"]) is not bool(texts["passwordFile"]):
        raise option_error("user", "needs passwordFile, and that one it", "give both")
