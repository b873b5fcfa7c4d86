"""The door of the binary protocol: makes a connection of each transport that speaks it."""

import asyncio

from penstock.core.effects import IdentityTaken
from penstock.doors.binary.connection import BinaryConnection
from penstock.doors.binary.parts import BinaryParts
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason


class BinaryDoor(BinaryParts):
    """Accepts the clients of one broker that speak the binary protocol."""

    def accept(self, transport: asyncio.Transport, data: bytes, origin: Origin) -> None:
        BinaryConnection(self, transport, origin).data_received(data)

    def identity_taken(self, effect: IdentityTaken) -> None:
        """Close our client with this id, unless our own ``Identified`` is in the pipeline."""
        holder = self.identities.get(effect.client_id)
        if holder is not None and holder.is_identified and holder.number != effect.connection:
            holder.close(DisconnectReason.SESSION_TAKEN_OVER)
