"""What the API says about the access book as a whole: its state, users and rules as a document."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.access.documents import AccessDocument
from penstock.api.documents.lists import Missing
from penstock.api.documents.security import Version


class AccessState(msgspec.Struct, frozen=True, kw_only=True):
    """The access book in numbers."""

    version: int  # of its last change
    open: bool  # there are no users: everybody on the broker's machine may do everything
    users: int
    admins: int
    roles: int
    tokens: int
    bans: int


class AccessExport(msgspec.Struct, frozen=True, kw_only=True):
    """Users, roles and bans as one document."""

    document: AccessDocument
    version: int


class AccessProposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``access/plan`` and ``access/apply``."""

    document: AccessDocument
    prune: Annotated[bool, Meta(description="Also remove what the document does not name.")] = False
    expected: Version = -1


class RowChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A user, a role or a ban that changes."""

    kind: str
    name: str
    what: str  # add, change or remove
    fields: list[str]  # of a changed row, those that differ


class RightChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may do less, or more."""

    user: str
    action: str
    filter: str  # empty for actions that have no topic
    before: str  # all, some or none of what the filter matches
    after: str  # or less or more of it, if both are "some"


class NarrowedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that would receive less."""

    user: str
    client_id: str
    topic_filter: str


class AccessPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a document would do."""

    changes: list[RowChanged]
    loses: list[RightChanged]
    gains: list[RightChanged]
    more: bool  # more rights differ than are listed
    locked_out: list[str]  # users that could no longer log in
    subscriptions: list[NarrowedSubscription]
    version: int


class AccessApplied(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a document did."""

    changes: list[RowChanged]
    version: int


class WithheldMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A retained message that nobody is sent: its author may no longer publish it."""

    topic: str
    author: str
    time: str | None
    payload_bytes: int


class WithheldMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Retained messages that nobody is sent, by topic as the broker has them."""

    items: list[WithheldMessage]
    more: bool  # than ``limit``
    next: str | None = None
    incomplete: list[Missing] = []
