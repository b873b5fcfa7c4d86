"""Who acts: the subject of every decision about access.

A connection has a principal from its first byte on: a ``STRANGER``, who may do nothing, until the
door knows more. Without users, everybody on this machine is ``ANYONE``.
"""

from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from penstock.trust.rights import ALL_RIGHTS, NO_RIGHTS, Rights


class Principal(Struct, frozen=True, gc=False):
    """An identity, what it may do, and through which door it came."""

    user: str  # "" is nobody; ``key:ID`` is the holder of a signing key
    rights: Rights
    door: str = ""
    address: str = ""  # where it came from, for the log of denials
    is_known: bool = True  # whether it may go on without logging in
    expires_ms: int = 0  # when the connection must end (a token, a certificate); 0: never
    via: str = ""  # the kind of credentials: one of KINDS; "" is none
    client_id: str = ""  # that the rights were made for
    roles: tuple[str, ...] = ()  # of a token or JWT, or of somebody without a name; else the user's
    proof: bytes = b""  # what stands for the credentials: if it is gone, they are revoked

    @property
    def author(self) -> str:
        """Who is noted as the author of a retained message, to be judged later; "": nobody.

        The roles of a JSON web token are its issuer's affair, and its user need not have a row.
        """
        return "" if self.via == "jwt" else self.user

    def __repr__(self) -> str:
        return f"Principal({self.user!r}, door={self.door!r}, via={self.via!r})"


KINDS = (
    "password", "scram", "secret", "token", "console", "certificate", "listener", "key", "jwt",
    "configuration",
)  # fmt: skip
"""Kinds of credentials. Who came by ``token`` may neither change passwords nor make tokens."""


STRANGER = Principal("", NO_RIGHTS, is_known=False)
"""A connection that has yet to log in."""

ANYONE = Principal("", ALL_RIGHTS)
"""Everybody, where there are no users; and the broker itself."""

_DOORS_OF_DEVICES = {"mqtt", "binary"}  # by which nobody changes rights or settings


def anyone(door: str, address: str) -> Principal:
    """``ANYONE``, come by ``door``.

    There may be very many devices, so those of a door share one object, which does not say where
    they came from: they may do everything, so no denial is logged, nor any change.
    """
    return (
        _device(door) if door in _DOORS_OF_DEVICES else replace(ANYONE, door=door, address=address)
    )


@cache
def _device(door: str) -> Principal:
    return replace(ANYONE, door=door)
