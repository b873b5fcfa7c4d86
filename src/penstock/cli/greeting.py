"""What ``penstock serve`` says once it runs: where, for whom, how safe, and what an ack means."""

from operator import itemgetter
from pathlib import Path

from penstock import __version__, kernel
from penstock.access.exposure import clear_text
from penstock.cli.output import counted
from penstock.cluster.status import NodeState, diagnosis
from penstock.config.address import Address
from penstock.config.listeners import ListenerSettings, wanted
from penstock.config.schema import Config
from penstock.server import Server

DAY_S = 24 * 3600
EVERY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - nothing is bound here


def greeting(server: Server) -> str:
    config, size = server.config, server.store.size()
    stored = f"{counted(size.messages, 'message')}, {size.bytes_used / 1024**2:,.1f} MiB"
    addresses = ", ".join(str(address) for address in server.addresses)
    skipped = ", ".join(map(str, server.skipped))
    is_only = len(server.addresses) == 1
    lines = [
        f"Penstock {__version__} is running (stop with Ctrl-C).",
        f"  listening  {addresses} ({'every protocol' if is_only else 'every protocol on each'})",
        *([f"  in use     {skipped} by another program, skipped"] if skipped else []),
        f"  clients    {_who(server)}",
        *([f"  tls        {tls}"] if (tls := _tls(server)) else []),
        *([f"  access     {access}"] if (access := _access(server)) else []),
        f"  data       {Path(config.data).resolve()} ({stored})",
        *([f"  cluster    {_cluster(server)}"] if config.cluster.peer_listen else []),
        f"  an ack     {_promise(config)}",
        f"  speed      {_speed()}",
        f"  look       {_pages(server)}/console/, /metrics, /health, /ready",
    ]
    return "\n".join(lines)


def _listening(server: Server) -> list[tuple[ListenerSettings, Address]]:
    """What was asked for beside where it listens, with the actual ports."""
    opened = [each for each in wanted(server.config) if each.address not in server.skipped]
    return list(zip(opened, server.addresses, strict=True))


def _who(server: Server) -> str:
    config, listening = server.config, _listening(server)
    local = [str(address) for settings, address in listening if not settings.is_reachable]
    others = [str(address) for settings, address in listening if settings.is_reachable]
    if server.broker.access.is_open:
        return _who_without_users(config, local, others)
    is_denied = config.auth.anonymous == "deny"
    here = "log in" if is_denied else "without a password (role local)"
    elsewhere = "without a password (role anonymous)" if config.allow_anonymous else "log in"
    if not others:
        return f"on this machine: {here}"
    if not local or here == elsewhere:
        return "must log in" if elsewhere == "log in" else elsewhere
    return f"at {', '.join(local)}: {here}; at {', '.join(others)}: {elsewhere}"


def _who_without_users(config: Config, local: list[str], others: list[str]) -> str:
    if not others:
        return "anyone on this machine, without a password"
    if config.allow_anonymous:
        return "ANYONE who can reach these addresses, without a password (allow_anonymous)"
    here = f"anyone at {', '.join(local)}; nobody else" if local else "nobody"
    return f"{here} until penstock users add NAME --admin --data {config.data}"


def _pages(server: Server) -> str:
    """Where to look: the last listener that speaks HTTP, if possible in clear text."""
    has_certificate = server.certificates is not None
    speaking = [
        (settings.tls_mode(has_certificate=has_certificate) != "required", address)
        for settings, address in _listening(server)
        if settings.accepts("http") and not settings.proxy
    ]
    if not speaking:
        return f"http://{server.addresses[-1]}"
    is_clear, address = max(reversed(speaking), key=itemgetter(0))
    host = "localhost" if address.host in EVERY_HOST else address.host
    return f"{'http' if is_clear else 'https'}://{Address(host, address.port)}"


def _tls(server: Server) -> str:
    if server.certificates is None:
        exposed = clear_text(server.config)
        return "off: what clients on other machines send can be read on the way" if exposed else ""
    days = server.certificates.expires_s() / DAY_S
    left = f"{counted(int(days), 'day')} left" if days > 0 else "EXPIRED"
    return f"{server.certificates.loaded.certificate.name}, {left}"


def _access(server: Server) -> str:
    book = server.broker.access
    if book.is_open:
        return ""
    admins = sum(map(book.is_admin, book.users))
    users, admin = counted(len(book.users), "user"), counted(admins, "administrator")
    return f"version {book.version}: {users}, {admin}"


def _cluster(server: Server) -> str:
    cluster, status = server.config.cluster, server.view.cluster()
    state = "a member" if status.state is NodeState.MEMBER else diagnosis(status)
    return f"node {cluster.node_id}, for other nodes {cluster.peer_listen}; {state}"


def _speed() -> str:
    return kernel.speed if kernel.is_compiled else f"{kernel.described}; see penstock doctor"


def _promise(config: Config) -> str:
    if config.cluster.peer_listen:
        return "means: on disk on a quorum of the cluster"
    if config.durability == "sync":
        return "means: on disk, fsynced (durability = sync)"
    return (
        f"means: accepted; on disk within {config.durability_interval_ms} ms, a crash can lose that"
        " much (durability = interval)"
    )
