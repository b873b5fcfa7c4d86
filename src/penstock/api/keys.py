"""``keys``: the public keys that devices sign with."""

from heapq import nsmallest

from penstock.admin.keys import STATES, KeyChanges
from penstock.admin.keys import NewKey as Wanted
from penstock.admin.view import KeyAdmin
from penstock.api.call import Call
from penstock.api.cursors import key_of
from penstock.api.documents.common import CurrentListQuery
from penstock.api.documents.security import Key, KeyChange, KeyRotation, Keys, NewKey, RotatedKey
from penstock.api.named import moment_or_none
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.trust import keys
from penstock.trust.rules import Action

_LIST = "keys"


class DeviceKeys(Resource):
    """Public keys that devices sign messages with."""

    @operation("GET", "keys", Action.ADMIN)
    async def list(self, call: Call, query: CurrentListQuery) -> Keys:  # noqa: ARG002 - as all
        """List keys by id."""
        after = key_of(_LIST, query.cursor, int)
        known = self._admin.keys()
        found = [key for key in known if after is None or key.id > after]
        page = nsmallest(query.limit + 1, found, key=lambda key: key.id)
        part = first_of(_LIST, page, query.limit, self._describe, lambda key: key.id)
        return Keys(items=part.items, next=part.next)

    @operation("POST", "keys", Action.ADMIN)
    async def add(self, call: Call, body: NewKey) -> Key:  # noqa: ARG002
        """Register a key of a device."""
        wanted = Wanted(body.device, body.topics, body.public_key, body.id, body.expires_s)
        return self._describe(await self._changes.add(wanted))

    @operation("POST", "keys/revoke", Action.ADMIN)
    async def revoke(self, call: Call, body: KeyChange) -> Key:  # noqa: ARG002
        """Revoke a key: what it signs is refused from now on."""
        return self._describe(await self._changes.revoke(body.id))

    @operation("POST", "keys/enable", Action.ADMIN)
    async def enable(self, call: Call, body: KeyChange) -> Key:  # noqa: ARG002
        """Enable a key that was revoked."""
        return self._describe(await self._changes.enable(body.id))

    @operation("POST", "keys/rotate", Action.ADMIN)
    async def rotate(self, call: Call, body: KeyRotation) -> RotatedKey:  # noqa: ARG002
        """Give a device another key; both are valid for a while."""
        new, old = await self._changes.rotate(body.id, body.public_key, body.overlap_s)
        return RotatedKey(key=self._describe(new), previous=self._describe(old))

    @property
    def _admin(self) -> KeyAdmin:
        assert self.parts.keys is not None
        return self.parts.keys

    @property
    def _changes(self) -> KeyChanges:
        return KeyChanges(self._admin)

    def _describe(self, key: keys.Key) -> Key:
        return Key(
            id=key.id,
            device=key.device,
            topics=key.topics,
            public_key=key.public_key.hex(),
            state=STATES[key.fault(self._admin.wall_ms())],
            created=moment_or_none(key.created_ms),
            expires=moment_or_none(key.expires_ms),
            revoked=moment_or_none(key.revoked_ms),
            successor=key.successor or None,
        )
