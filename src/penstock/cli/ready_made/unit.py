"""A unit of systemd: for one broker, or as a template for the nodes of a cluster.

The unit is of type ``notify``: the broker says when it listens and that it is alive. It gets few
rights, and a user that exists only while it runs, unless one is named.
"""

import re
from typing import Final, NamedTuple

from penstock.errors import ConfigError

__all__ = ["CONFIG", "NODE_CONFIG", "PROGRAM", "Unit", "systemd_unit"]

PROGRAM: Final = "/opt/penstock/.venv/bin/penstock"
CONFIG: Final = "/etc/penstock/penstock.toml"
NODE_CONFIG: Final = "/etc/penstock/node-%i.toml"
STATE: Final = "/var/lib/"
HIDDEN: Final = tuple(f"/{name}/" for name in ("home", "root", "run/user"))  # by ProtectHome=yes
_PATH: Final = re.compile(r"/[A-Za-z0-9_./@+:=,-]+")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,30}")


class Unit(NamedTuple):
    """What differs between installations; ``user`` empty: systemd makes one.

    In a template, ``%i`` in the name of the configuration is the number of the node; to the data
    directory it is added.
    """

    program: str = PROGRAM
    config: str = ""  # empty: the usual file
    data: str = "/var/lib/penstock"
    user: str = ""


def systemd_unit(unit: Unit, *, is_node: bool = False) -> str:
    """Return the text of penstock.service or, for nodes of a cluster, of penstock@.service.

    Raises ConfigError for what a unit cannot say.
    """
    unit = unit._replace(config=unit.config or (NODE_CONFIG if is_node else CONFIG))
    _check(unit._replace(config=unit.config.replace("%i", "1") if is_node else unit.config))
    if is_node:
        unit = unit._replace(data=f"{unit.data.rstrip('/')}-%i")
    parts = {
        "head": _NODE_HEAD if is_node else _HEAD,
        "title": ", node %i" if is_node else "",
        "program": unit.program,
        "config": unit.config,
        "data": unit.data,
        "secrets": _NODE_SECRETS if is_node else _SECRETS,
        "owner": "\n".join(_owner(unit)),
        "home": "read-only" if any(path.startswith(HIDDEN) for path in unit) else "yes",
    }
    return _UNIT.format(**parts)


def _check(unit: Unit) -> None:
    for path in (unit.program, unit.config, unit.data):
        if not _PATH.fullmatch(path) or "/../" in f"{path}/":
            advice = "use an absolute path of letters, digits and . _ - + @ : = ,"
            raise ConfigError(f"{path!r} cannot be written in a unit", advice)
    if unit.user and not _USER.fullmatch(unit.user):
        raise ConfigError(f"{unit.user!r} is not the name of a user")
    if not unit.user and not _state(unit.data):
        advice = "name its owner with --user, or keep the data in /var/lib/NAME"
        raise ConfigError(f"systemd cannot give {unit.data} to a user that it makes", advice)


def _state(data: str) -> str:
    """The name of a directory that systemd makes and hands over; empty if it is none."""
    return data.removeprefix(STATE).strip("/") if data.startswith(STATE) else ""


def _owner(unit: Unit) -> list[str]:
    if unit.user:
        lines = ["# The owner of the data directory.", f"User={unit.user}"]
    else:
        lines = [
            "# A user that exists only while the broker runs, and is given the data at each start.",
            "DynamicUser=yes",
        ]
    if state := _state(unit.data):
        return [*lines, f"StateDirectory={state}", "StateDirectoryMode=0700"]
    return [*lines, f"ReadWritePaths={unit.data}"]


_HEAD: Final = """\
# Penstock under systemd. Made by `penstock generate systemd`. Copy to /etc/systemd/system/, then:
#   systemctl daemon-reload && systemctl enable --now penstock
# Logs: journalctl -u penstock. Log lines are JSON objects; the lines at the start are plain text.
# ProtectHome hides a Python below a home directory: see docs/operating/running.md.
"""

_NODE_HEAD: Final = """\
# A node of a cluster under systemd; %i is its number. Made by `penstock generate systemd
# --cluster`. On the machine of node 1:
#   copy to /etc/systemd/system/, and to /etc/penstock/ a file node-1.toml (there is one in
#   docs/operating/cluster.md) and cluster-secret, the same on all nodes, with mode 0600; then
#   systemctl daemon-reload && systemctl enable --now penstock@1
# Do the same on the others with their numbers; then, once: penstock cluster init … at one of them.
# Logs: journalctl -u penstock@1. Three instances on one machine work too, with their own ports.
"""

_SECRETS: Final = """\
# Keys stay readable by root only; the broker gets a private copy. With a certificate, add here
#   LoadCredential=tls-key:/etc/penstock/server.key
#   Environment=PENSTOCK_TLS_CERT=/etc/penstock/server.crt PENSTOCK_TLS_KEY=%d/tls-key"""

_NODE_SECRETS: Final = """\
# The secret stays readable by root only; the broker gets a private copy.
LoadCredential=cluster-secret:/etc/penstock/cluster-secret
Environment=PENSTOCK_CLUSTER_SECRET_FILE=%d/cluster-secret PENSTOCK_CLUSTER_NODE_ID=%i
# PENSTOCK_ADMIN_TOKEN=… for administrators on other machines; mode 0600.
EnvironmentFile=-/etc/penstock/admin-token"""

_UNIT: Final = """\
{head}
[Unit]
Description=Penstock message broker{title}
After=network-online.target
Wants=network-online.target

[Service]
# The broker reports when it listens; what depends on it starts then. Recovery takes as long as it
# takes, and logs how far it is.
Type=notify
TimeoutStartSec=infinity
# If the event loop stands still for a minute, the broker is ended and started again; the log then
# has what every thread was doing.
WatchdogSec=60
Environment=PYTHONFAULTHANDLER=1
{secrets}
ExecStartPre={program} config check {config}
ExecStart={program} serve --config {config} --data {data}
ExecReload=/bin/kill -HUP $MAINPID

{owner}
UMask=0077

# SIGTERM stops cleanly: everything accepted is committed, wills are published, a leader hands over.
# Allow more than shutdown.timeout_s (30 s) before systemd kills it; killing loses nothing that was
# acknowledged.
TimeoutStopSec=45
Restart=on-failure
RestartSec=1
# Exit status 74 means that the disk failed to store data: check it before the next start.
RestartPreventExitStatus=74

# One file per connection, plus some for the journal: keep it well above limits.clients_max.
LimitNOFILE=65536

ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
NoNewPrivileges=yes
CapabilityBoundingSet=

[Install]
WantedBy=multi-user.target
"""
