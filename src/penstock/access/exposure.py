"""Who can reach a broker, and whether that is meant: secure by default.

A listener on a loopback address serves this machine, without a password. One that other machines
can reach needs users, or the operator's word that everybody may come in. A node of a cluster starts
without users, as they come from the other nodes, and so does a broker with a bootstrap token, which
makes the first one. Until then they refuse whoever is not local.
"""

from penstock.config.listeners import ListenerSettings, wanted
from penstock.config.schema import Config
from penstock.errors import ConfigError
from penstock.trust.book import AccessBook


def reachable(config: Config) -> list[ListenerSettings]:
    """The listeners that other machines can reach."""
    return [settings for settings in wanted(config) if settings.is_reachable]


def check_exposure(config: Config, book: AccessBook, *, is_private: bool = False) -> None:
    """Raise ConfigError if strangers could use the broker and nobody has said that they may.

    ``is_private``: there are no listeners.
    """
    exposed = [] if is_private else reachable(config)
    is_to_come = bool(config.cluster.peer_listen or config.auth.bootstrap_token_file)
    if config.allow_anonymous or not book.is_open or not exposed or is_to_come:
        return
    address = exposed[0].address
    raise ConfigError(
        f"{address} can be reached from other machines, and there are no users",
        f"Add an administrator: penstock users add NAME --admin --data {config.data}\n"
        f"  or listen on 127.0.0.1:{address.port}; or, if open access is intended, set"
        " allow_anonymous = true (flag --allow-anonymous).",
    )


def clear_text(config: Config) -> list[ListenerSettings]:
    """The listeners that take logins from other machines without encryption."""
    has_certificate = bool(config.tls.cert)
    return [
        settings
        for settings in reachable(config)
        if settings.tls_mode(has_certificate=has_certificate) != "required"
    ]
