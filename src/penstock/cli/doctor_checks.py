"""What ``penstock doctor`` looks at, one check each. A check yields findings and changes nothing.

A finding is *wrong* if the broker does not start, refuses clients or gives away a secret; it is
*weak* if everything works, until an attacker or many clients come; it is *slow* if everything
works, and could do so faster. Each says what helps.
"""

import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from penstock.access.exposure import clear_text, reachable
from penstock.cli.admin_client import AdminClient, Document
from penstock.cli.paged import every
from penstock.config.cluster import cluster_secret
from penstock.config.keys import KEYS
from penstock.config.load import Loaded
from penstock.config.schema import Config
from penstock.errors import ConfigError, PenstockError
from penstock.net.certificates import Certificates

DAY_S = 24 * 3600
EXPIRES_SOON_DAYS = 30
CLOCK_SLACK_S = 60
USERS_SHOWN_MAX = 5


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong, weak or slow, and what helps."""

    level: Literal["wrong", "weak", "slow"]
    what: str
    fix: str


def wrong(what: str, fix: str) -> Finding:
    return Finding("wrong", what, fix)


def weak(what: str, fix: str) -> Finding:
    return Finding("weak", what, fix)


def slow(what: str, fix: str) -> Finding:
    return Finding("slow", what, fix)


# ── the configuration and its files ───────────────────────────────────────────────────────────


def configuration(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    yield from _exposure(config)
    yield from _secret_files(loaded)
    yield from _certificate(config)


def _exposure(config: Config) -> Iterator[Finding]:
    exposed = ", ".join(str(settings.address) for settings in reachable(config))
    if not exposed:
        return
    if config.allow_anonymous:
        what = f"whoever reaches {exposed} may use the broker without a password"
        yield weak(what, "remove allow_anonymous, and add users: penstock users add NAME")
    if readable := ", ".join(str(settings.address) for settings in clear_text(config)):
        what = f"passwords and messages to {readable} can be read on the way"
        yield weak(what, "set tls.cert and tls.key, and tls = required on listeners")
    if config.auth.clear_text_admins:
        what = "administrators may log in from other machines without encryption"
        yield weak(what, "remove auth.clear_text_admins")
    versions = {
        *config.signing.versions,
        *(v for rule in config.signing.rules for v in rule.versions),
    }
    if 1 in versions:
        what = "signatures of version 1 are accepted, which whoever saw one can send again"
        yield weak(what, "write signing.versions = [2], once all devices sign so")


def _secret_files(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    for name, file in (
        ("tls.key", config.tls.key),
        ("cluster.tls_key", config.cluster.tls_key),
        ("cluster.secret_file", config.cluster.secret_file),
        ("auth.bootstrap_token_file", config.auth.bootstrap_token_file),
    ):
        if file and (mode := _mode(Path(file))) is not None and mode & 0o077:
            yield wrong(f"{name}: other users may read {file}", f"chmod 600 {file}")
    try:
        cluster_secret(config.cluster)
    except ConfigError as error:
        yield wrong(error.message, error.advice)
    if loaded.file and _has_secret(loaded) and (_mode(Path(loaded.file)) or 0) & 0o077:
        what = f"{loaded.file} has a secret in it, and other users may read it"
        yield wrong(what, f"chmod 600 {loaded.file}, or keep the secret in a file of its own")


def _has_secret(loaded: Loaded) -> bool:
    return any(
        key.form == "secret" and loaded.sources[name].startswith("file ")
        for name, key in KEYS.items()
    )


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _certificate(config: Config) -> Iterator[Finding]:
    if not config.tls.cert:
        return
    try:
        found = Certificates(config.tls, wall_ms=lambda: int(time.time() * 1000))
    except ConfigError as error:
        yield wrong(error.message, error.advice)
        return
    facts, days = found.loaded.certificate, found.expires_s() / DAY_S
    if days <= 0:
        what = f"the certificate for {facts.name} expired {-days:,.0f} days ago"
        yield wrong(what, f"renew {config.tls.cert}; the broker reloads it by itself")
    elif days < EXPIRES_SOON_DAYS:
        yield weak(f"the certificate for {facts.name} expires in {days:,.0f} days", "renew it")
    if facts.not_before > time.time() + CLOCK_SLACK_S:
        what = f"the certificate for {facts.name} is not valid yet"
        yield wrong(what, "is the clock of this machine right? timedatectl shows it")


# ── the data directory ────────────────────────────────────────────────────────────────────────


def directory(data: Path) -> Iterator[Finding]:
    mode = _mode(data)
    if mode is None:
        return
    if mode & 0o077:
        yield wrong(f"other users may look into {data}: {mode:o}", f"chmod 700 {data}")
    newest = max((file.stat().st_mtime for file in data.glob("*.mdb")), default=0.0)
    if newest > time.time() + CLOCK_SLACK_S:
        what = "the journal was written in the future: the clock of this machine was set back"
        yield wrong(what, "set it right (timedatectl); signatures and tokens depend on it")


# ── users and rules ───────────────────────────────────────────────────────────────────────────


def access(config: Config, broker: AdminClient) -> Iterator[Finding]:
    """Users and roles, of a broker that runs or was opened for this."""
    try:
        users = every(broker, "users")
        roles = every(broker, "roles")
    except PenstockError as error:
        yield weak(f"users could not be looked at: {error.message}", error.advice or "log in")
        return
    if not users:
        yield from nobody(config)
        return
    if not any(user["admin"] and not user["disabled"] for user in users):
        yield wrong("there is no administrator", "penstock users add NAME --admin")
    without = [user["name"] for user in users if not user["roles"] and not user["disabled"]]
    if without:
        what = f"users without a role may do nothing: {_some(without)}"
        yield weak(what, "penstock users roles NAME ROLE…, or remove them")
    yield from _unbound(users, roles)


def nobody(config: Config) -> Iterator[Finding]:
    if reachable(config) and not config.allow_anonymous and not config.cluster.peer_listen:
        what = "other machines can reach the broker, and there are no users: it does not start"
        yield wrong(what, f"penstock users add NAME --admin --data {config.data}")


def _unbound(users: list[Document], roles: list[Document]) -> Iterator[Finding]:
    """Rules with %c, where whoever logs in chooses the client id freely."""
    naming = {role["name"] for role in roles if any("%c" in rule for rule in role["rules"])}
    naming |= {role["name"] for role in roles if naming.intersection(role["roles"])}
    loose = [
        user["name"]
        for user in users
        if naming.intersection(user["roles"]) and not user["client_ids"]
    ]
    if loose:
        what = f"rules with %c apply to users that may take any client id: {_some(loose)}"
        yield weak(what, "add users with --client-id PATTERN, or write %u in the rule")


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - USERS_SHOWN_MAX:,} more" if len(found) > USERS_SHOWN_MAX else ""
    return ", ".join(found[:USERS_SHOWN_MAX]) + more
