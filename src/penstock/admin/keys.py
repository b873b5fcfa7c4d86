"""``/keys``: the keys that devices sign with, listed and changed while the broker runs.

The one part of the pages that changes something, and only for administrators
(:func:`~penstock.admin.pages.check_administrator`). A change is durable, and in force for the
next frame, when the answer arrives.

Changes are made one after the other: an id that was chosen for a key stays free until the key is
stored. Two ids may never share a public key, for a version 1 signature does not say which of them
made it: revoking one would leave the other open.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.routing import Route

from penstock.admin.pages import (
    RequestRefused,
    administrators_page,
    kept,
    read_body,
    reading_page,
    time_of,
)
from penstock.obs.log import get_logger
from penstock.trust.faults import SignatureFault
from penstock.trust.keys import KEYS_MAX, Key, key_fault, rotate

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.admin.view import KeyAdmin


_YEAR_S = 365 * 24 * 3600

_Seconds = Annotated[int, Meta(ge=0, le=100 * _YEAR_S)]

_STATES = {
    None: "active",
    SignatureFault.REVOKED_KEY: "revoked",
    SignatureFault.EXPIRED_KEY: "expired",
}

_log = get_logger("keys")


class _AddRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What registers a key; without ``key_id`` the broker chooses one."""

    device: str
    topics: str
    public_key: str
    key_id: int | None = None
    expires_s: _Seconds | None = None


class _RotateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What replaces a device's key by a new one."""

    public_key: str
    overlap_s: _Seconds


def routes(admin: "KeyAdmin", token: str) -> list[Route]:
    """The pages of one broker; ``token`` is the administrators', empty if there is none."""
    pages = _KeyPages(admin)
    return [
        reading_page("/keys", token, admin, pages.show_all),
        administrators_page("/keys", "POST", token, pages.add),
        administrators_page("/keys/{key_id:int}/revoke", "POST", token, pages.revoke),
        administrators_page("/keys/{key_id:int}/enable", "POST", token, pages.enable),
        administrators_page("/keys/{key_id:int}/rotate", "POST", token, pages.rotate),
    ]


class _KeyPages:
    """Answers the requests. Whoever gets here may do everything."""

    def __init__(self, admin: "KeyAdmin") -> None:
        self._admin = admin
        self._one_at_a_time = asyncio.Lock()

    async def show_all(self, _request: "Request") -> dict[str, Any]:
        now_ms = self._admin.wall_ms()
        return {"keys": [_show(key, now_ms) for key in self._keys()]}

    async def add(self, request: "Request") -> dict[str, Any]:
        wanted = await read_body(request, _AddRequest)
        async with self._one_at_a_time:
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
        return _show(key, now_ms)

    async def revoke(self, request: "Request") -> dict[str, Any]:
        async with self._one_at_a_time:
            key, now_ms = self._known(request), self._admin.wall_ms()
            if not key.revoked_ms:
                key = replace(key, revoked_ms=now_ms)
                await self._store("key_revoked", key)
        return _show(key, now_ms)

    async def enable(self, request: "Request") -> dict[str, Any]:
        async with self._one_at_a_time:
            key, now_ms = self._known(request), self._admin.wall_ms()
            enabled = replace(key, revoked_ms=0)
            _check_lasting(enabled, now_ms)
            if key.revoked_ms:
                await self._store("key_enabled", enabled)
        return _show(enabled, now_ms)

    async def rotate(self, request: "Request") -> dict[str, Any]:
        wanted = await read_body(request, _RotateRequest)
        async with self._one_at_a_time:
            old, now_ms = self._known(request), self._admin.wall_ms()
            _check_rotatable(old, now_ms)
            public_key, new_id = _public_key(wanted.public_key), self._free_id(None)
            new, ending = rotate(old, new_id, public_key, now_ms, wanted.overlap_s * 1000)
            self._check_new(new)
            await self._store("key_registered", new)
            await self._store("key_succeeded", ending)
        return {"key": _show(new, now_ms), "previous": _show(ending, now_ms)}

    def _keys(self) -> list[Key]:
        return self._admin.keys()

    def _known(self, request: "Request") -> Key:
        key_id = request.path_params["key_id"]
        for key in self._keys():
            if key.id == key_id:
                return key
        raise RequestRefused(404, f"there is no key {key_id}", "penstock keys list shows all keys")

    def _free_id(self, wanted: int | None) -> int:
        if wanted is None:
            return self._admin.next_key_id()
        if any(key.id == wanted for key in self._keys()):
            raise RequestRefused(
                409, f"there is a key {wanted} already", "leave the id to the broker"
            )
        return wanted

    def _check_new(self, key: Key) -> None:
        if fault := key_fault(key):
            raise RequestRefused(
                400, f"this key cannot be registered: {fault}", "nothing was changed"
            )
        others = self._keys()
        if len(others) >= KEYS_MAX:
            raise RequestRefused(
                409, f"there are {KEYS_MAX} keys already", "that is all there may be"
            )
        for other in others:
            if other.public_key == key.public_key:
                raise RequestRefused(
                    409,
                    f"this public key is registered already, as key {other.id}",
                    "make a new pair for each key; one that was revoked can be enabled again",
                )

    async def _store(self, event: str, key: Key) -> None:
        await kept(self._admin.store_key(key))
        _log.info(event, key_id=key.id, device=key.device)


def _check_lasting(key: Key, now_ms: int) -> None:
    """A key whose time is over stays out of force, revoked or not; an answer must not hide that."""
    if key.fault(now_ms) is not None:
        raise RequestRefused(
            409,
            f"key {key.id} has expired, at {time_of(key.expires_ms)}, and cannot be enabled",
            f"give the device a new one: penstock keys new {key.device}",
        )


def _check_rotatable(old: Key, now_ms: int) -> None:
    """Only a key in force can be followed by another; else nothing would overlap."""
    if old.successor:
        raise RequestRefused(
            409,
            f"key {old.id} has a successor already, key {old.successor}",
            f"penstock keys rotate {old.successor}",
        )
    if old.fault(now_ms) is not None:
        raise RequestRefused(
            409,
            f"key {old.id} is not in force any more",
            f"give the device a new one: penstock keys new {old.device}",
        )


def _public_key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise RequestRefused(
            400, "the public key is not in hexadecimal", "send its 32 bytes as 64 digits"
        ) from None


def _show(key: Key, now_ms: int) -> dict[str, Any]:
    return {
        "id": key.id,
        "device": key.device,
        "topics": key.topics,
        "public_key": key.public_key.hex(),
        "state": _STATES[key.fault(now_ms)],
        "created": time_of(key.created_ms),
        "expires": time_of(key.expires_ms),
        "revoked": time_of(key.revoked_ms),
        "successor": key.successor or None,
    }
