"""How the options of the configuration are declared: their sections, and what is said of each."""

from typing import get_args

import msgspec
from msgspec import Meta

FORMS = (
    "",
    "address",
    "bridge_url",
    "secret_file",
    "filter",
    "listener",
    "network",
    "origin",
    "secret",
    "user",
)


def about(flag: str = "", form: str = "") -> Meta:
    """``flag`` is for the command line. ``form`` is that of texts: one of ``FORMS``."""
    return Meta(extra={"flag": flag, "form": form})


def within(low: float, high: float, flag: str = "") -> Meta:
    return Meta(ge=low, le=high, extra={"flag": flag})


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of the configuration. Its secrets are kept out of logs and tracebacks."""

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{field.name}={self._shown(field)!r}" for field in msgspec.structs.fields(self)
        )
        return f"{type(self).__name__}({fields})"

    def _shown(self, field: msgspec.structs.FieldInfo) -> object:
        value: object = getattr(self, field.name)
        metas = [meta for meta in get_args(field.type) if isinstance(meta, Meta)]
        is_secret = any((meta.extra or {}).get("form") == "secret" for meta in metas)
        return "(hidden)" if is_secret and value else value
