"""What ``penstock serve`` says once it runs: where, for whom, how safe, and what an ack means."""

from pathlib import Path

from penstock import __version__
from penstock.access.exposure import clear_text, reachable
from penstock.cli.output import counted
from penstock.cluster.status import NodeState, diagnosis
from penstock.config.schema import Config
from penstock.server import Server

DAY_S = 24 * 3600


def greeting(server: Server) -> str:
    config, size = server.config, server.store.size()
    stored = f"{counted(size.messages, 'message')}, {size.bytes_used / 1024**2:,.1f} MiB"
    addresses = ", ".join(str(address) for address in server.addresses)
    skipped = ", ".join(map(str, server.skipped))
    http, is_only = server.addresses[-1], len(server.addresses) == 1
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
        f"  look       http://{http}/metrics, /health, /ready",
    ]
    return "\n".join(lines)


def _who(server: Server) -> str:
    config, is_exposed = server.config, bool(reachable(server.config))
    if server.broker.access.is_open:
        if not is_exposed:
            return "anyone on this machine, without a password"
        if config.allow_anonymous:
            return "ANYONE who can reach these addresses, without a password (allow_anonymous)"
        return "anyone on this machine; nobody else until penstock users add NAME --admin"
    here = "log in" if config.auth.anonymous == "deny" else "without a password (role local)"
    if not is_exposed:
        return f"on this machine: {here}"
    others = "without a password (role anonymous)" if config.allow_anonymous else "log in"
    return others if here == others else f"on this machine: {here}; others: {others}"


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


def _promise(config: Config) -> str:
    if config.cluster.peer_listen:
        return "means: on disk on a quorum of the cluster"
    if config.durability == "sync":
        return "means: on disk, fsynced (durability = sync)"
    return (
        f"means: accepted; on disk within {config.durability_interval_ms} ms, a crash can lose that"
        " much (durability = interval)"
    )
