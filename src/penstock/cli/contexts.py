"""Contexts: named brokers and how to log in there, in ``~/.config/penstock/contexts.toml``.

The file may hold secrets and decides who gets them. So it is refused if others may read or write
it, and replaced as a whole, never half written.
"""

import json
import os
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import Final

import msgspec

from penstock.config.address import Address, parse_listen
from penstock.errors import PenstockError
from penstock.trust.rows import NAME, NAME_FAULT

FILE_NAME: Final = "contexts.toml"
FILE_VARIABLE: Final = "PENSTOCK_CONTEXTS"  # its path, if it is elsewhere
_BYTES_MAX: Final = 1 << 20


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broker or the nodes of a cluster, and who we are there."""

    servers: tuple[str, ...]
    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    user: str = ""
    password_file: str = ""
    token_file: str = ""
    password: str = ""  # in this file, instead of one of its own
    token: str = ""

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(map(parse_listen, self.servers))

    def shown(self) -> dict[str, object]:
        """The settings, without secrets."""
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value}
        hidden = {name: "(hidden)" for name in ("password", "token") if name in given}
        return given | hidden

    def __repr__(self) -> str:
        return f"Context({self.shown()!r})"


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file."""

    current: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        if name not in self.contexts:
            known = ", ".join(self.contexts) or "there are none; penstock context add makes one"
            raise PenstockError(f"there is no context {name!r}", f"known: {known}")
        return self.contexts[name]


def contexts_file() -> Path:
    if chosen := os.environ.get(FILE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "penstock" / FILE_NAME


def load_contexts() -> Contexts:
    """Raises PenstockError if the file is invalid, or others may read it."""
    path = contexts_file()
    try:
        with path.open("rb") as file:
            _check_private(path, os.fstat(file.fileno()))
            content = file.read(_BYTES_MAX)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise PenstockError(f"cannot read {path}: {error.strerror}") from error
    try:
        document = tomllib.loads(content.decode())
        contexts = msgspec.convert(document, Contexts)
        for name, context in contexts.contexts.items():
            check_context(name, context)
    except (ValueError, msgspec.ValidationError) as error:
        # The text of a parser may quote a line of the file, and with it a secret.
        where = str(error) if isinstance(error, msgspec.ValidationError) else "not valid TOML"
        raise PenstockError(f"{path}: {where}", "correct it, or remove it") from None
    return contexts


def _check_private(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in {os.geteuid(), 0}:
        raise PenstockError(f"{path} belongs to another user", "it decides who gets your password")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise PenstockError(f"other users may read or change {path}", f"chmod 600 {path}")


def check_context(name: str, context: Context) -> None:
    """Raises PenstockError."""
    if not NAME.fullmatch(name):
        raise PenstockError(f"context {name!r}: {NAME_FAULT}")
    if not context.servers:
        raise PenstockError(f"context {name} has no server", "give --server HOST:PORT")
    try:
        _ = context.addresses
    except ValueError as error:
        raise PenstockError(f"context {name}: {error}") from None
    proofs = (context.password_file, context.token_file, context.password, context.token)
    if sum(map(bool, proofs)) > 1:
        raise PenstockError(f"context {name}: give one password or token, or a file with it")


def save_contexts(contexts: Contexts) -> Path:
    """Replace the file; its mode is 0600 from the start."""
    path = contexts_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".contexts-", dir=path.parent)  # 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(_toml(contexts))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PenstockError(f"cannot write {path}: {error.strerror}") from error
    return path


def _toml(contexts: Contexts) -> str:
    """JSON's strings and lists are those of TOML."""
    lines = [f"current = {json.dumps(contexts.current)}"]
    for name, context in contexts.contexts.items():
        lines += ["", f"[contexts.{json.dumps(name)}]"]
        given = msgspec.structs.asdict(context)
        lines += [f"{key} = {_value(value)}" for key, value in given.items() if value]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
