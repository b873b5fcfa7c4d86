"""The consensus core under test, from whatever package it is to be loaded.

Planted faults are tried on copies of the core under other names. A copy has types of its own; they
are compared by what they hold, and made through here.
"""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from penstock.raft.types import ConfChangeKind, EntryKind

CONF_CHANGES = frozenset({EntryKind.CONF_CHANGE, EntryKind.CONF_CHANGE_V2})
"""Kinds of entries that change the configuration; numbers, so those of a copy are in it, too."""


@dataclass(frozen=True, slots=True)
class Core:
    """One copy of the core: what a driver needs of it."""

    types: ModuleType
    RawNode: Any
    Config: Any
    ProposalDropped: type[Exception]
    change_of: Any
    """Returns the change of the configuration that an entry holds."""

    def configuration_after(self, conf: Any, change: Any) -> Any:
        """Say what a change makes of a configuration: a second opinion, for single steps."""
        voters, learners = set(conf.voters), set(conf.learners)
        for kind, node in change.steps:
            voters.discard(node)
            learners.discard(node)
            if kind == ConfChangeKind.ADD_NODE:
                voters.add(node)
            elif kind == ConfChangeKind.ADD_LEARNER:
                learners.add(node)
        return self.types.ConfState(tuple(sorted(voters)), tuple(sorted(learners)))


def load(package: str) -> Core:
    return Core(
        types=import_module(f"{package}.types"),
        RawNode=import_module(f"{package}.raw_node").RawNode,
        Config=import_module(f"{package}.config").RaftConfig,
        ProposalDropped=import_module(f"{package}.errors").ProposalDropped,
        change_of=import_module(f"{package}.conf_entries").decode_change,
    )
