"""``penstock keys``: create, register, revoke and rotate the keys that devices sign with.

The key pair is generated here; the broker receives only the public key, and assigns the id. With
``--offline`` the id is a random 32-bit number; ``keys add`` would refuse a collision. The secret is
printed only on request, and never as JSON: output ends up in logs.
"""

import secrets
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options, stale_option
from penstock.cli.inputs import duration
from penstock.cli.key_files import DeviceKeyPair, KeyFiles
from penstock.cli.lazy import NounGroup
from penstock.cli.output import columns, format_time, print_result, wants_json
from penstock.cli.paged import every
from penstock.config.units import with_unit
from penstock.errors import PenstockError
from penstock.obs.printable import printable
from penstock.trust.keys import KEY_ID_MAX, Key, key_fault
from penstock.trust.signatures import SEED_BYTES, KeyPair, is_valid, key_pair, sign_1


def _whole_duration(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> int | None:
    seconds = duration(context, parameter, text)
    if seconds is None:
        return None
    if seconds != int(seconds):
        raise click.BadParameter(f"{text!r} is not a whole number of seconds")
    return int(seconds)


_topics_option = click.option(
    "--topics",
    default="*",
    show_default=True,
    metavar="LIST",
    help="Topics that the device may publish to: names, filters (+ and #) or a prefix and *,"
    " separated by commas.",
)
_expires_option = click.option(
    "--expires",
    callback=_whole_duration,
    metavar="TIME",
    help="How long the key is valid, as in 90d or 12h.",
)
_out_option = click.option(
    "--out",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Directory for the key files; the current one by default.",
)
_force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")
_secret_option = click.option(
    "--print-secret", is_flag=True, help="Print the secret key, too; it is also in the files."
)
_key_argument = click.argument("key", metavar="ID|DEVICE")

PATH: Final = "keys"
_ACTIVE: Final = "active"
_REVOKED: Final = "revoked"


@click.group(cls=NounGroup)
def keys() -> None:
    """Create and manage the keys that devices sign with.

    Without a command it lists.
    """


def _expiry(key: Document) -> str:
    return f"expires: {format_time(key['expires'])}"


# ── New keys ──────────────────────────────────────────────────────────────────────────────────


@keys.command()
@click.argument("device", default="esp32_device")
@_topics_option
@_expires_option
@_out_option
@_force_option
@_secret_option
@click.option(
    "--offline",
    is_flag=True,
    help="Do not contact a broker; print the command that registers the key.",
)
@admin_options
def new(
    device: str,
    *,
    topics: str,
    expires: int | None,
    out: Path,
    force: bool,
    print_secret: bool,
    offline: bool,
    broker: AdminClient,
) -> None:
    """Create a key for DEVICE (esp32_device by default) and register it.

    Writes DEVICE_keys.h for the firmware and DEVICE.key.json for Python. Both contain the secret
    key and are readable only by you.
    """
    pair = _new_pair()
    if fault := key_fault(Key(1, pair.public_key, device, topics, 0)):  # the broker would refuse it
        raise click.UsageError(fault)
    files = KeyFiles(out, device, force=force)
    if offline:
        made = _unregistered(device, topics, pair, expires)
    else:
        public_key = pair.public_key.hex()
        made = broker.post(
            PATH, device=device, topics=topics, public_key=public_key, expires_s=expires
        )
    key = DeviceKeyPair(device, made["id"], topics, *pair)
    until = format_time(made["expires"])
    if offline and expires:
        until = f"{with_unit(expires, 's')} after it is registered"
    wrote = _hand_out(files, key, until, print_secret=print_secret)
    if offline:
        wrote += f"\nNot registered yet. To register it:\n  {made['register']}"
    print_result(made | {"files": files.names}, wrote)


def _new_pair() -> KeyPair:
    pair = key_pair(secrets.token_bytes(SEED_BYTES))
    signature = sign_1(pair.secret_key, 1, b"self/test", b"payload")
    works = is_valid(pair.public_key, b"self/test", b"payload", signature)
    if not works or is_valid(pair.public_key, b"self/test", b"another", signature):
        raise PenstockError(
            "the new key failed its self-test", "reinstall PyNaCl: its libsodium is broken"
        )
    return pair


def _unregistered(device: str, topics: str, pair: KeyPair, expires_s: int | None) -> Document:
    key = DeviceKeyPair(device, secrets.randbelow(KEY_ID_MAX) + 1, topics, *pair)
    return {
        "id": key.key_id,
        "device": device,
        "topics": topics,
        "public_key": pair.public_key.hex(),
        "state": "unregistered",
        "expires": None,
        "register": _add_line(key, expires_s),
    }


def _add_line(key: DeviceKeyPair, expires_s: int | None) -> str:
    words = ["penstock", "keys", "add", key.device, "--topics", key.topics]
    words += ["--id", str(key.key_id), "--public-key", key.public_key.hex()]
    words += ["--expires", with_unit(expires_s, "s")] if expires_s else []
    return shlex.join(words)


def _hand_out(files: KeyFiles, key: DeviceKeyPair, until: str, *, print_secret: bool) -> str:
    facts = [
        ("device", key.device),
        ("topics", printable(key.topics, 400)),
        ("key id", str(key.key_id)),
        ("expires", until),
        ("public key", key.public_key.hex()),
        ("self-test", "passed: signed and verified"),
    ]
    if not wants_json():
        click.echo(columns(facts))
    if print_secret and not wants_json():
        click.echo(f"\n{key.c_arrays()}")
    try:
        files.write(key)
    except OSError as error:
        what = f"created key {key.key_id}, but {error.filename} cannot be written: {error.strerror}"
        advice = f"run penstock keys revoke {key.key_id}, then create a key in another directory"
        raise PenstockError(what, advice) from error
    wrote = f"Wrote {_listed(files.paths)}. They contain the secret key; only you can read them."
    if files.set_aside:
        wrote += f"\nThe files of the previous key were renamed to {_listed(files.set_aside)}."
    return wrote


def _listed(paths: Iterable[Path]) -> str:
    return " and ".join(map(str, paths))


@keys.command()
@click.argument("device")
@click.option("--public-key", required=True, metavar="HEX", help="32 bytes as hexadecimal digits.")
@_topics_option
@click.option(
    "--id",
    "key_id",
    type=click.IntRange(1, KEY_ID_MAX),
    help="Key id; assigned by the broker by default.",
)
@_expires_option
@admin_options
def add(
    device: str,
    *,
    public_key: str,
    topics: str,
    key_id: int | None,
    expires: int | None,
    broker: AdminClient,
) -> None:
    """Register a key of DEVICE that was created elsewhere."""
    key = broker.post(
        PATH,
        device=device,
        topics=topics,
        public_key=public_key,
        id=key_id,
        expires_s=expires,
    )
    print_result(key, f"registered key {key['id']} of {device} ({_expiry(key)})")


# ── Registered keys ───────────────────────────────────────────────────────────────────────────


@keys.command(name="list")
@admin_options
@stale_option
def list_keys(broker: AdminClient) -> None:
    """List all keys, active or not."""
    found = every(broker, PATH)
    print_result(found, _table(found))


def _table(found: list[Document]) -> str:
    if not found:
        return "no keys are registered; penstock keys new DEVICE creates one"
    active = {key["id"] for key in found if key["state"] == _ACTIVE}
    rows = [_row(key, is_followed=key["successor"] in active) for key in found]
    return columns([("ID", "DEVICE", "STATE", "EXPIRES", "TOPICS"), *rows])


def _row(key: Document, *, is_followed: bool) -> tuple[str, ...]:
    state = f"{key['state']}, then {key['successor']}" if is_followed else key["state"]
    topics = printable(key["topics"], 400)
    return str(key["id"]), key["device"], state, format_time(key["expires"]), topics


@keys.command()
@_key_argument
@click.option("--all", "is_all", is_flag=True, help="Revoke every active key of DEVICE.")
@admin_options
def revoke(key: str, *, is_all: bool, broker: AdminClient) -> None:
    """Revoke a key: refuse what is signed with it from now on.

    Name the key by its ID, or by its DEVICE if only one of the device's keys is active. With --all,
    revoke every active key of DEVICE.
    """
    if is_all:
        if _is_id(key):
            raise click.UsageError("--all needs a DEVICE, not an ID")
        active = [known for known in _keys_of(broker, key) if known["state"] == _ACTIVE]
        revoked = [broker.post(f"{PATH}/revoke", id=known["id"]) for known in active]
        print_result(revoked, "\n".join(map(_outcome, revoked)) or f"no key of {key} is active")
    else:
        key_id = _key_id(broker, key, _ACTIVE, "or revoke all: --all")
        changed = broker.post(f"{PATH}/revoke", id=key_id)
        print_result(changed, _outcome(changed))


@keys.command()
@_key_argument
@admin_options
def enable(key: str, broker: AdminClient) -> None:
    """Enable a revoked key again.

    Name the key by its ID, or by its DEVICE if only one of the device's keys is revoked.
    """
    changed = broker.post(f"{PATH}/enable", id=_key_id(broker, key, _REVOKED))
    print_result(changed, _outcome(changed))


def _outcome(key: Document) -> str:
    return f"key {key['id']} of {key['device']} is {key['state']}"


@keys.command()
@_key_argument
@click.option(
    "--public-key",
    metavar="HEX",
    help="Public key of a pair created elsewhere; by default a pair is created.",
)
@click.option(
    "--overlap",
    callback=_whole_duration,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How long the old key stays valid.",
)
@_out_option
@_force_option
@_secret_option
@admin_options
def rotate(
    key: str,
    *,
    public_key: str | None,
    overlap: int,
    out: Path,
    force: bool,
    print_secret: bool,
    broker: AdminClient,
) -> None:
    """Replace the key of a device by a new one.

    Name the device, or the id of the key to replace. The old key stays valid for a while; its files
    are renamed to DEVICE.ID_keys.h and DEVICE.ID.key.json. Writes the same files as `penstock keys
    new`, unless --public-key is given.
    """
    key_id = _latest_id(broker, key)
    path, which = f"{PATH}/rotate", {"id": key_id, "overlap_s": overlap}
    if public_key is not None:
        outcome = broker.post(path, public_key=public_key, **which)
    else:
        pair = _new_pair()
        files = KeyFiles(out, _device_of(broker, key_id), force=force, replaced=key_id)
        outcome = broker.post(path, public_key=pair.public_key.hex(), **which)
        made = outcome["key"]
        fresh = DeviceKeyPair(made["device"], made["id"], made["topics"], *pair)
        until = format_time(made["expires"])
        wrote = _hand_out(files, fresh, until, print_secret=print_secret)
        outcome["files"] = files.names
        if not wants_json():
            click.echo(wrote)
    made, previous = outcome["key"], outcome["previous"]
    now = f"key {made['id']} of {made['device']} is valid now ({_expiry(made)})"
    until = format_time(previous["expires"])
    print_result(outcome, f"{now}, key {previous['id']} until {until}")


def _keys_of(broker: AdminClient, device: str) -> list[Document]:
    found = [known for known in every(broker, PATH) if known["device"] == device]
    if not found:
        raise PenstockError(f"device {device} has no key", "penstock keys list shows all keys")
    return found


def _key_id(broker: AdminClient, key: str, state: str, alternative: str = "") -> int:
    # The only key is returned even if it is in another state: the broker explains the refusal.
    if _is_id(key):
        return int(key)
    found = _keys_of(broker, key)
    return _only(key, [known for known in found if known["state"] == state] or found, alternative)


def _only(device: str, found: list[Document], alternative: str = "") -> int:
    if len(found) == 1:
        return int(found[0]["id"])
    ids = ", ".join(f"{known['id']} ({known['state']})" for known in found)
    advice = ", ".join(filter(None, ["give the id of one", alternative]))
    raise PenstockError(f"{device} has several keys: {ids}", advice)


def _is_id(key: str) -> bool:
    return key.isascii() and key.isdecimal()


def _latest_id(broker: AdminClient, key: str) -> int:
    if _is_id(key):
        return int(key)
    found = _keys_of(broker, key)
    latest = [known for known in found if not known["successor"]]
    if active := [known for known in latest if known["state"] == _ACTIVE]:
        return _only(key, active)
    ids = ", ".join(f"{known['id']} ({known['state']})" for known in latest)
    advice = f"penstock keys new {key} --out DIR creates one, in a directory without its old files"
    raise PenstockError(f"the latest key of {key} is not active: {ids}", advice)


def _device_of(broker: AdminClient, key_id: int) -> str:
    for key in every(broker, PATH):
        if key["id"] == key_id:
            return str(key["device"])
    raise PenstockError(f"there is no key {key_id}", "penstock keys list shows all keys")
