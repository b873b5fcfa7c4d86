"""Shared subscriptions: ``$share/<name>/<filter>``, each message to one member.

A share is its name *and* its filter. It stands for a group of every topic that the filter matches:

* Without wildcards the group has the share's name: other protocols work on it by that name.
* With wildcards it is called ``<name>/<filter>``. So ``$share/g/a/+`` and ``$share/g/a/b`` are two
  groups of ``a/b``, and both get its messages. No share has a slash in its name, so no name is
  taken twice; a filter that is too long for the name of a group is represented by its digest.

A share is there while a session has it, connected or not. A group that MQTT 5 made for a share, and
that nothing else has used, ends with the share, and so does what waited in it. Groups that were
made or used by MQTT 3.1.1 or another protocol stay, as all groups did before MQTT 5.
"""

from hashlib import blake2b
from typing import NamedTuple

from penstock.core.commands import (
    DeadLettered,
    GroupGone,
    GroupMade,
    Leased,
    LeasesReturned,
    LeasesSettled,
    Returned,
    Swept,
)
from penstock.limits import GROUP_BYTES_MAX
from penstock.model.topic import has_wildcard

PREFIX = b"$share/"

WORKER_PREFIX = b"mqtt5#"  # names of workers that are members by MQTT 5

_DIGEST_BYTES = 16

# commands that members of a share cause, and those that look after any group
_OF_SHARES = (
    DeadLettered,
    GroupGone,
    GroupMade,
    LeasesReturned,
    LeasesSettled,
    Returned,
    Swept,
)


class Share(NamedTuple):
    """What a shared subscription names."""

    group: bytes
    topic_filter: bytes

    @property
    def has_wildcard(self) -> bool:
        return has_wildcard(self.topic_filter)


def is_shared(topic_filter: bytes) -> bool:
    return topic_filter.startswith(PREFIX)


def parse_share(topic_filter: bytes) -> Share | None:
    """The group and the filter within; None if one is missing or not allowed."""
    name, _, inner = topic_filter[len(PREFIX) :].partition(b"/")
    if not name or has_wildcard(name) or len(name) > GROUP_BYTES_MAX or not inner:
        return None
    return Share(_group_of(name, inner) if has_wildcard(inner) else name, inner)


def _group_of(name: bytes, inner: bytes) -> bytes:
    group = name + b"/" + inner
    if len(group) <= GROUP_BYTES_MAX:
        return group
    digest = blake2b(inner, digest_size=_DIGEST_BYTES).hexdigest().encode()
    return name[: GROUP_BYTES_MAX - len(digest) - 1] + b"/" + digest


def is_of_share(command: object) -> bool:
    """Whether a command of a group leaves it to its share alone."""
    if isinstance(command, Leased):
        return all(name.startswith(WORKER_PREFIX) for name, _, _ in command.shares)
    return isinstance(command, _OF_SHARES)
