"""``settings``: the configuration that is in force, and how much of its limits is used."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from penstock.admin.view import BrokerView, JournalView
from penstock.api.call import Call
from penstock.api.documents.settings import Setting, Settings
from penstock.api.operations import Resource, operation
from penstock.config.keys import KEYS, RULE_KEYS, ConfigKey
from penstock.config.reloading import LIVE
from penstock.config.schema import Config
from penstock.config.values import encode
from penstock.trust.rules import Action

HIDDEN = "(hidden)"


class _Usage(NamedTuple):
    text: str
    read: Callable[[BrokerView, JournalView], float]


USAGE: Mapping[str, _Usage] = {
    "limits.clients_max": _Usage("clients connected", lambda v, _: v.connections()),
    "limits.sessions_max": _Usage("sessions, connected or away", lambda v, _: sum(v.sessions())),
    "limits.retained_max": _Usage("retained messages", lambda v, _: v.retained()),
    "limits.outgoing_bytes_max": _Usage("bytes waiting to be sent", lambda v, _: v.outgoing()[0]),
    "limits.staged_bytes_max": _Usage("bytes staged", lambda v, _: v.counters.staged_bytes),
    "journal.capture_pending_bytes_max": _Usage(
        "QoS 0 bytes that wait for the disk", lambda v, _: v.pending_capture_bytes()
    ),
    "journal.total_bytes_max": _Usage("bytes of the journal", lambda _, j: j.bytes),
}
"""Options that are limits of something that is counted, and how much there is of it."""


class SettingsPages(Resource):
    """The configuration."""

    @operation("GET", "settings", Action.MONITOR)
    async def show(self, call: Call) -> Settings:
        """Show every option: its value, default, source and meaning; secrets are hidden.

        Of limits it tells how much is used. Values change by the configuration file, the
        environment or flags; those that are `live` take effect without a restart.
        """
        configured, view = self.parts.configured, self.parts.view
        journal = await call.read(view.journal)
        config = configured.config()
        items = []
        for key in KEYS.values():
            source = configured.sources.get(key.name, "default")
            items.append(_setting(key, config, source, view, journal))
        return Settings(items=items, file=configured.file)


def _setting(
    key: ConfigKey, config: Config, source: str, view: BrokerView, journal: JournalView
) -> Setting:
    section = getattr(config, key.section) if key.section else config
    value = getattr(section, key.leaf)
    usage = USAGE.get(key.name)
    return Setting(
        name=key.name,
        section=key.section,
        kind=key.kind,
        unit=key.unit,
        value=shown(key, value),
        toml=encode(key, _masked(key, value)),
        default=None if key.default is msgspec.NODEFAULT else shown(key, key.default),
        is_default=value == key.default,
        source=source,
        text=key.text,
        environment=key.environment,
        flag=key.flag,
        live=key.name in LIVE,
        secret=key.form == "secret",
        used=None if usage is None else float(usage.read(view, journal)),
        used_text="" if usage is None else usage.text,
    )


def shown(key: ConfigKey, value: object) -> object:
    """A value as JSON has it, without secrets."""
    return msgspec.to_builtins(_masked(key, value), str_keys=True)


def _masked(key: ConfigKey, value: object) -> object:
    if key.form == "secret":
        return HIDDEN if value else ""
    if key.kind == "rules" and isinstance(value, tuple):
        return tuple(_masked_rule(RULE_KEYS[key.name], rule) for rule in value)
    return value


def _masked_rule(keys: dict[str, ConfigKey], rule: msgspec.Struct) -> msgspec.Struct:
    secrets = {leaf: HIDDEN for leaf, key in keys.items() if key.form == "secret"}
    given = {leaf: text for leaf, text in secrets.items() if getattr(rule, leaf)}
    return msgspec.structs.replace(rule, **given) if given else rule
