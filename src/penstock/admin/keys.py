"""``/keys``: list, register, revoke, enable and rotate the keys that devices sign with.

A change is durable and in force when the response arrives. Changes are made one at a time: the id
chosen for a key stays free until it is stored. Two ids must not share a public key: a version 1
signature does not name the key, so revoking one would leave the other usable.
"""

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.guard import Guard
from penstock.admin.pages import (
    admin_page,
    admin_read_page,
    applied,
    read_body,
    time_of,
)
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import KeyAdmin
from penstock.obs.log import get_logger
from penstock.trust.faults import SignatureFault
from penstock.trust.keys import KEYS_MAX, Key, key_fault, rotate

_YEAR_S = 365 * 24 * 3600

_Seconds = Annotated[int, Meta(ge=0, le=100 * _YEAR_S)]

STATES = {
    None: "active",
    SignatureFault.REVOKED_KEY: "revoked",
    SignatureFault.EXPIRED_KEY: "expired",
}

_log = get_logger("keys")


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to register; without ``key_id`` the broker assigns one."""

    device: str
    topics: str
    public_key: str
    key_id: int | None = None
    expires_s: _Seconds | None = None


class _RotateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The successor of a key, and how long both are valid."""

    public_key: str
    overlap_s: _Seconds


def routes(admin: KeyAdmin, guard: Guard) -> list[Route]:
    pages = _KeyPages(admin)
    return [
        admin_read_page("/keys", guard, admin, pages.show_all),
        admin_page("/keys", "POST", guard, pages.add),
        admin_page("/keys/{key_id:int}/revoke", "POST", guard, pages.revoke),
        admin_page("/keys/{key_id:int}/enable", "POST", guard, pages.enable),
        admin_page("/keys/{key_id:int}/rotate", "POST", guard, pages.rotate),
    ]


class _KeyPages:
    def __init__(self, admin: KeyAdmin) -> None:
        self._admin = admin
        self._changes = KeyChanges(admin)

    async def show_all(self, _request: Request) -> dict[str, object]:
        now_ms = self._admin.wall_ms()
        return {"keys": [_describe(key, now_ms) for key in self._admin.keys()]}  # noqa: SIM118 - no dict

    async def add(self, request: Request) -> dict[str, object]:
        return self._described(await self._changes.add(await read_body(request, NewKey)))

    async def revoke(self, request: Request) -> dict[str, object]:
        return self._described(await self._changes.revoke(request.path_params["key_id"]))

    async def enable(self, request: Request) -> dict[str, object]:
        return self._described(await self._changes.enable(request.path_params["key_id"]))

    async def rotate(self, request: Request) -> dict[str, object]:
        wanted = await read_body(request, _RotateRequest)
        key_id = request.path_params["key_id"]
        new, ending = await self._changes.rotate(key_id, wanted.public_key, wanted.overlap_s)
        return {"key": self._described(new), "previous": self._described(ending)}

    def _described(self, key: Key) -> dict[str, object]:
        return _describe(key, self._admin.wall_ms())


class KeyChanges:
    """Changes of keys, one at a time."""

    def __init__(self, admin: KeyAdmin) -> None:
        self._admin = admin

    async def add(self, wanted: NewKey) -> Key:
        async with self._admin.one_at_a_time:
            now_ms = self._admin.wall_ms()
            key = Key(
                id=self._free_id(wanted.key_id),
                public_key=_public_key(wanted.public_key),
                device=wanted.device,
                topics=wanted.topics,
                created_ms=now_ms,
                expires_ms=now_ms + wanted.expires_s * 1000 if wanted.expires_s else 0,
            )
            self._check_new(key)
            await self._store("key_registered", key)
        return key

    async def revoke(self, key_id: int) -> Key:
        async with self._admin.one_at_a_time:
            key, now_ms = self._known(key_id), self._admin.wall_ms()
            if not key.revoked_ms:
                key = replace(key, revoked_ms=now_ms)
                await self._store("key_revoked", key)
        return key

    async def enable(self, key_id: int) -> Key:
        async with self._admin.one_at_a_time:
            key, now_ms = self._known(key_id), self._admin.wall_ms()
            enabled = replace(key, revoked_ms=0)
            if enabled.fault(now_ms) is not None:  # an expired key would stay inactive
                error = f"key {key.id} expired at {time_of(key.expires_ms)} and cannot be enabled"
                raise RequestRefused(409, error, _new_key_advice(key))
            if key.revoked_ms:
                await self._store("key_enabled", enabled)
        return enabled

    async def rotate(self, key_id: int, public_key: str, overlap_s: int) -> tuple[Key, Key]:
        """The new key, and the one that it follows."""
        async with self._admin.one_at_a_time:
            old, now_ms = self._known(key_id), self._admin.wall_ms()
            _check_rotatable(old, now_ms)
            public, new_id = _public_key(public_key), self._free_id(None)
            new, ending = rotate(old, new_id, public, now_ms, overlap_s * 1000)
            self._check_new(new)
            await applied(self._admin.store_keys(new, ending))  # a crash must not leave both valid
            _log.info("key_registered", key_id=new.id, device=new.device)
            _log.info("key_succeeded", key_id=ending.id, device=ending.device)
        return new, ending

    def _keys(self) -> list[Key]:
        return self._admin.keys()

    def _known(self, key_id: int) -> Key:
        for key in self._keys():
            if key.id == key_id:
                return key
        raise RequestRefused(404, f"there is no key {key_id}", "penstock keys list shows all keys")

    def _free_id(self, wanted: int | None) -> int:
        if wanted is None:
            return self._admin.next_key_id()
        if any(key.id == wanted for key in self._keys()):
            advice = "omit the id to let the broker assign one"
            raise RequestRefused(409, f"key {wanted} exists already", advice)
        return wanted

    def _check_new(self, key: Key) -> None:
        if fault := key_fault(key):
            raise RequestRefused(400, f"invalid key: {fault}", "nothing was changed")
        others = self._keys()
        if len(others) >= KEYS_MAX:
            raise RequestRefused(409, f"there are {KEYS_MAX} keys", "that is the maximum")
        for other in others:
            if other.public_key == key.public_key:
                what = f"this public key is registered already, as key {other.id}"
                advice = "generate a new pair for each key; a revoked key can be enabled again"
                raise RequestRefused(409, what, advice)

    async def _store(self, event: str, key: Key) -> None:
        await applied(self._admin.store_keys(key))
        _log.info(event, key_id=key.id, device=key.device)


def _check_rotatable(old: Key, now_ms: int) -> None:
    if old.successor:
        error = f"key {old.id} already has a successor, key {old.successor}"
        raise RequestRefused(409, error, f"penstock keys rotate {old.successor}")
    if old.fault(now_ms) is not None:
        raise RequestRefused(409, f"key {old.id} is no longer active", _new_key_advice(old))


def _new_key_advice(key: Key) -> str:
    return (
        f"give the device a new key: penstock keys new {key.device} --out DIR, in a directory"
        " without the files of its old key"
    )


def _public_key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        advice = "send its 32 bytes as 64 hexadecimal digits"
        raise RequestRefused(400, "the public key is not hexadecimal", advice) from None


def _describe(key: Key, now_ms: int) -> dict[str, object]:
    return {
        "id": key.id,
        "device": key.device,
        "topics": key.topics,
        "public_key": key.public_key.hex(),
        "state": STATES[key.fault(now_ms)],
        "created": time_of(key.created_ms),
        "expires": time_of(key.expires_ms),
        "revoked": time_of(key.revoked_ms),
        "successor": key.successor or None,
    }
