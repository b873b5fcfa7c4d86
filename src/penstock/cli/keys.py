"""``penstock keys``: the keys that devices sign with, made, registered, revoked and replaced.

A pair of keys is made here; the broker gets the public half only. Its id comes from the broker,
which knows all others. Without one at hand (``--offline``) the id is drawn at random: among four
thousand million, two devices will hardly draw the same, and ``keys add`` would refuse the second.
"""

import secrets
import shlex
from pathlib import Path
from typing import Any

import click
import msgspec

from penstock.cli.administration import Administration, administered
from penstock.cli.columns import columns
from penstock.cli.key_files import DeviceKey, KeyFiles
from penstock.config.address import Address
from penstock.config.units import with_unit, without_unit
from penstock.errors import PenstockError
from penstock.obs.log import printable
from penstock.trust.keys import KEY_ID_MAX, Key, key_fault
from penstock.trust.signatures import SEED_BYTES, KeyPair, is_valid, key_pair, sign_1

__all__ = ["keys"]


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Take seconds, written as everywhere: 90d, 12h, 30m, or a number (a click callback)."""
    if text is None:
        return None
    try:
        seconds = without_unit(text, "s")
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}") from None
    if seconds != int(seconds) or seconds < 0:
        raise click.BadParameter(f"{text!r} is not a whole number of seconds, 0 or more")
    return int(seconds)


_topics_option = click.option(
    "--topics",
    default="*",
    show_default=True,
    metavar="LIST",
    help="Topics it may publish to: names, filters (+ and #) or a prefix and *, by commas.",
)
_expires_option = click.option(
    "--expires", callback=_duration, metavar="TIME", help="How long it is valid, as in 90d."
)
_out_option = click.option(
    "--out",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where to write the files of the key; here unless given.",
)
_force_option = click.option("--force", is_flag=True, help="Overwrite files that are there.")
_key_id_argument = click.argument("key_id", type=click.IntRange(1, KEY_ID_MAX), metavar="ID")


@click.group()
def keys() -> None:
    """Make, register, revoke and replace the keys that devices sign with."""


# ── New keys ──────────────────────────────────────────────────────────────────────────────────


@keys.command()
@click.argument("device", default="esp32_device")
@_topics_option
@_expires_option
@_out_option
@_force_option
@click.option("--offline", is_flag=True, help="Ask no broker; print how to register it later.")
@administered
def new(
    device: str,
    *,
    topics: str,
    expires: int | None,
    out: Path,
    force: bool,
    offline: bool,
    server: Address,
    token: str,
) -> None:
    """Make a key for DEVICE (esp32_device unless given) and register it.

    Writes DEVICE_keys.h, to be flashed, and DEVICE.key.json, for Python. Both hold the secret key,
    which is printed too.
    """
    pair = _new_pair()
    _check(device, topics, pair)
    files = KeyFiles(out, device, force=force)
    if offline:
        key_id = secrets.randbelow(KEY_ID_MAX) + 1
    else:
        registered = Administration(server, token).post(
            "/keys",
            device=device,
            topics=topics,
            public_key=pair.public_key.hex(),
            expires_s=expires,
        )
        key_id = registered["id"]
    key = DeviceKey(device, key_id, topics, *pair)
    _hand_out(files, key)
    if offline:
        click.echo(f"Not registered yet. To register it:\n  {_add_line(key, expires)}")


def _new_pair() -> KeyPair:
    """Make a pair that was seen to work."""
    pair = key_pair(secrets.token_bytes(SEED_BYTES))
    signature = sign_1(pair.secret_key, 1, b"self/test", b"payload")
    works = is_valid(pair.public_key, b"self/test", b"payload", signature)
    if not works or is_valid(pair.public_key, b"self/test", b"another", signature):
        raise PenstockError(
            "the new key failed its self-test", "reinstall PyNaCl: its libsodium is broken"
        )
    return pair


def _check(device: str, topics: str, pair: KeyPair) -> None:
    """Refuse here what the broker would refuse, before there is anything to clean up."""
    if fault := key_fault(Key(1, pair.public_key, device, topics, 0)):
        raise click.UsageError(fault)


def _described(key: DeviceKey) -> str:
    facts = [
        ("device", key.device),
        ("topics", printable(key.topics, 400)),
        ("key id", str(key.key_id)),
        ("public key", key.public_key.hex()),
        ("self-test", "passed: signed and verified"),
    ]
    return f"{columns(facts)}\n\n{key.c_arrays()}"


def _hand_out(files: KeyFiles, key: DeviceKey) -> None:
    """Print the key, then write it: what cannot be written is not lost."""
    click.echo(_described(key))
    try:
        files.write(key)
    except OSError as error:
        raise PenstockError(
            f"key {key.key_id} was made, but {error.filename} cannot be written: {error.strerror}",
            f"keep what is printed above, or penstock keys revoke {key.key_id} and begin anew",
        ) from error
    wrote = " and ".join(map(str, files.paths))
    click.echo(f"Wrote {wrote}: secret, readable by you only.")


def _add_line(key: DeviceKey, expires_s: int | None) -> str:
    words = ["penstock", "keys", "add", key.device, "--topics", key.topics]
    words += ["--id", str(key.key_id), "--public-key", key.public_key.hex()]
    words += ["--expires", with_unit(expires_s, "s")] if expires_s else []
    return shlex.join(words)


@keys.command()
@click.argument("device")
@click.option("--public-key", required=True, metavar="HEX", help="Its 32 bytes in hexadecimal.")
@_topics_option
@click.option("--id", "key_id", type=click.IntRange(1, KEY_ID_MAX), help="An id of your choice.")
@_expires_option
@administered
def add(
    device: str,
    *,
    public_key: str,
    topics: str,
    key_id: int | None,
    expires: int | None,
    server: Address,
    token: str,
) -> None:
    """Register the key of DEVICE that was made elsewhere."""
    registered = Administration(server, token).post(
        "/keys",
        device=device,
        topics=topics,
        public_key=public_key,
        key_id=key_id,
        expires_s=expires,
    )
    click.echo(f"registered key {registered['id']} of {device}")


# ── Keys that are there ───────────────────────────────────────────────────────────────────────


@keys.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@administered
def list_keys(as_json: bool, server: Address, token: str) -> None:
    """List all keys, those that are not in force any more too."""
    found = Administration(server, token).get("/keys")["keys"]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    elif found:
        click.echo(columns([("ID", "DEVICE", "STATE", "EXPIRES", "TOPICS"), *map(_row, found)]))
    else:
        click.echo("no keys are registered; penstock keys new DEVICE makes one")


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    state = f"{key['state']}, then {key['successor']}" if key["successor"] else key["state"]
    expires = (key["expires"] or "never")[:16]
    return str(key["id"]), key["device"], state, expires, printable(key["topics"], 400)


@keys.command()
@_key_id_argument
@administered
def revoke(key_id: int, server: Address, token: str) -> None:
    """Refuse what is signed with key ID from now on."""
    key = Administration(server, token).post(f"/keys/{key_id}/revoke")
    click.echo(f"key {key_id} of {key['device']} is {key['state']}")


@keys.command()
@_key_id_argument
@administered
def enable(key_id: int, server: Address, token: str) -> None:
    """Put a revoked key ID back in force."""
    key = Administration(server, token).post(f"/keys/{key_id}/enable")
    click.echo(f"key {key_id} of {key['device']} is {key['state']}")


@keys.command()
@_key_id_argument
@click.option("--public-key", metavar="HEX", help="Of a pair made elsewhere; else one is made.")
@click.option(
    "--overlap",
    callback=_duration,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How long the old key stays valid beside the new one.",
)
@_out_option
@_force_option
@administered
def rotate(
    key_id: int,
    *,
    public_key: str | None,
    overlap: int,
    out: Path,
    force: bool,
    server: Address,
    token: str,
) -> None:
    """Give the device of key ID a new key; the old one stays valid for a while.

    Writes the files that `penstock keys new` writes, unless --public-key is given.
    """
    broker, path = Administration(server, token), f"/keys/{key_id}/rotate"
    if public_key is not None:
        outcome = broker.post(path, public_key=public_key, overlap_s=overlap)
    else:
        pair = _new_pair()
        files = KeyFiles(out, _device_of(broker, key_id), force=force)
        outcome = broker.post(path, public_key=pair.public_key.hex(), overlap_s=overlap)
        made = outcome["key"]
        _hand_out(files, DeviceKey(made["device"], made["id"], made["topics"], *pair))
    new_key, previous = outcome["key"], outcome["previous"]
    click.echo(
        f"key {new_key['id']} of {new_key['device']} is valid now,"
        f" key {key_id} until {previous['expires']}"
    )


def _device_of(broker: Administration, key_id: int) -> str:
    """Look up whose key it is: the files are named after the device, and checked for first."""
    for key in broker.get("/keys")["keys"]:
        if key["id"] == key_id:
            return str(key["device"])
    raise PenstockError(f"there is no key {key_id}", "penstock keys list shows all keys")
