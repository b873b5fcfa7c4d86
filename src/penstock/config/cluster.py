"""The advertised addresses, the secret, and the rules of ``[cluster]``.

An address that means something else on another machine (0.0.0.0, or loopback) would send others to
themselves. That would look like a network failure, so it is refused at startup.
"""

import stat
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from penstock.config.address import Address, parse_listen, parse_listener
from penstock.config.problems import ConfigFault
from penstock.config.schema import Cluster, Config
from penstock.errors import ConfigError

SECRETS_MAX = 2  # in the file: more than one while the secret is rotated
SECRET_FILE_BYTES_MAX = 4096  # a secret has at most 256 characters

CLUSTER_KEYS = frozenset(
    {
        "durability",
        "listen",
        "http_listen",
        "listeners",
        "cluster.node_id",
        "cluster.peer_listen",
        "cluster.advertise_peer",
        "cluster.advertise",
        "cluster.secret",
        "cluster.secret_file",
        "cluster.tls_cert",
        "cluster.tls_key",
        "cluster.tls_ca",
    }
)
"""The options that ``cluster_faults`` reads."""


def advertised_peer(config: Config) -> Address:
    cluster = config.cluster
    return parse_listen(cluster.advertise_peer or cluster.peer_listen)


def advertised(config: Config) -> Address | None:
    if config.cluster.advertise:
        return parse_listen(config.cluster.advertise)
    return next(iter(client_addresses(config)), None)


def client_addresses(config: Config) -> list[Address]:
    texts = (*config.listen, *config.http_listen, *(one.address for one in config.listeners))
    return [parse_listener(text)[0] for text in texts]


def cluster_secret(cluster: Cluster) -> bytes:
    """The secret that this node proves itself with. Raises ConfigError."""
    return cluster_secrets(cluster)[0]


def cluster_secrets(cluster: Cluster) -> tuple[bytes, ...]:
    """The secrets that this node accepts; it uses the first, a second one is for rotation.

    Raises ConfigError if the file is invalid, or readable by all users of the machine.
    """
    if cluster.secret or not cluster.secret_file:
        return (cluster.secret.encode(),)
    try:
        with Path(cluster.secret_file).open("rb") as file:
            mode, text = Path(cluster.secret_file).stat().st_mode, file.read(SECRET_FILE_BYTES_MAX)
    except OSError as error:
        raise _secret_error(cluster, f"cannot be read: {error.strerror}", "make one") from error
    if mode & stat.S_IROTH:
        raise _secret_error(cluster, "is readable by all users of this machine", "chmod 600 it")
    secrets = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not 1 <= len(secrets) <= SECRETS_MAX or not all(map(_is_secret, secrets)):
        raise _secret_error(
            cluster,
            "must contain 16 to 256 ASCII characters without spaces; a second line may have"
            " another secret, which is accepted",
            "make another",
        )
    return secrets


def _is_secret(line: bytes) -> bool:
    return 16 <= len(line) <= 256 and line.isascii() and len(line.split()) == 1


def _secret_error(cluster: Cluster, what: str, advice: str) -> ConfigError:
    made = "head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE; the same on all nodes"
    how = f"{advice} ({made})" if "make" in advice else advice
    return ConfigError(f"cluster.secret_file: {cluster.secret_file} {what}", how)


def cluster_faults(config: Config) -> Iterator[ConfigFault]:
    if not config.cluster.peer_listen:
        yield from _lone_faults(config.cluster)
        return
    yield from _identity_faults(config)
    yield from _credential_faults(config.cluster)
    yield from _address_faults(config)


def _lone_faults(cluster: Cluster) -> Iterator[ConfigFault]:
    """Node settings without peer_listen are a mistake: the broker would start standalone."""
    for key in ("node_id", "advertise_peer", "advertise"):
        if getattr(cluster, key):
            advice = (
                'add peer_listen = "HOST:7700" under [cluster] (flag --peer-listen), or remove it'
            )
            yield ConfigFault("has no effect without cluster.peer_listen", advice, f"cluster.{key}")


def _identity_faults(config: Config) -> Iterator[ConfigFault]:
    if not config.cluster.node_id:
        yield ConfigFault(
            "is missing: every node of a cluster needs its own number",
            "write node_id = 1 under [cluster] (flag --node-id 1), and another number on each node",
            "cluster.node_id",
        )
    if config.durability != "sync":
        what = "a cluster node must not acknowledge a message before it is on disk"
        advice = 'write durability = "sync", or run it standalone (without cluster.peer_listen)'
        yield ConfigFault(what, advice, "durability")


def _credential_faults(cluster: Cluster) -> Iterator[ConfigFault]:
    files = {name: getattr(cluster, name) for name in ("tls_cert", "tls_key", "tls_ca")}
    for name, file in files.items():
        if not file and any(files.values()):
            what = "is missing: TLS needs tls_cert, tls_key and tls_ca"
            yield ConfigFault(what, "set all three, or none", f"cluster.{name}")
    if cluster.secret and cluster.secret_file:
        yield ConfigFault(
            "is set in addition to cluster.secret", "keep one of them", "cluster.secret_file"
        )
    is_guarded = bool(cluster.secret or cluster.secret_file or any(files.values()))
    if not is_guarded and not parse_listen(cluster.peer_listen).is_loopback:
        yield ConfigFault(
            f"{cluster.peer_listen} is reachable from other machines, and nodes are not"
            " authenticated",
            "give all nodes the same secret: --cluster-secret-file FILE, or"
            " PENSTOCK_CLUSTER_SECRET; or TLS certificates",
            "cluster.peer_listen",
        )


def _address_faults(config: Config) -> Iterator[ConfigFault]:
    own, peer = parse_listen(config.cluster.peer_listen), advertised_peer(config)
    if own in client_addresses(config):
        yield ConfigFault(f"{own} is listed twice", "change its port", "cluster.peer_listen")
    if not peer.port:
        yield ConfigFault(
            "port 0 changes with each start, so that other nodes would not find this one",
            'choose one, as in "127.0.0.1:7700"',
            "cluster.advertise_peer" if config.cluster.advertise_peer else "cluster.peer_listen",
        )
    if _is_wildcard(peer):
        yield _advertised_fault(peer, "cluster.advertise_peer", "--advertise-peer")
    client = advertised(config)
    if client is None:
        return
    if _is_wildcard(client) or (client.is_loopback and not peer.is_loopback):
        yield _advertised_fault(client, "cluster.advertise", "--advertise")


def _is_wildcard(address: Address) -> bool:
    try:
        return ip_address(address.host).is_unspecified
    except ValueError:
        return False


def _advertised_fault(address: Address, key: str, flag: str) -> ConfigFault:
    what = f"{address} would be advertised to others, for whom it is their own machine"
    advice = f"set the address at which they reach this machine: {flag} HOST:{address.port}"
    return ConfigFault(what, advice, key)
