"""Changes of users and keys, and what they do to the rest of the state.

A change is in force with the command that makes it. Routes are forgotten, so that the next message
of each topic is judged again. Sessions and durable subscribers of a deleted user end: a later user
of that name is somebody else. Its sinks become nobody's.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.core.commands import AccessChanged, KeysStored, KeyStored
from penstock.core.completion import Completion
from penstock.core.effects import AccessApplied, Effects, Outcome
from penstock.core.live import LiveSubscriber
from penstock.core.owners import Owners
from penstock.core.routes import Routes
from penstock.core.session import Session
from penstock.trust.book import AccessBook, Change
from penstock.trust.keys import Key, KeyRing

Waiter = Completion[object] | None


class Owned(Protocol):
    """A part of the state that belongs to users."""

    def forget_user(self, user: str, index: int, *, recovering: bool) -> None: ...


class AccessChanges:
    """Applies changes of the access book and of the key ring."""

    def __init__(
        self,
        *,
        book: AccessBook,
        keys: KeyRing,
        owners: Owners,
        routes: Routes[Session | LiveSubscriber],
        owned: tuple[Owned, ...],
        end_sessions: Callable[[str], None],
        moment: Callable[[], tuple[int, bool]],
    ) -> None:
        """``end_sessions`` discards the sessions of a user.

        ``moment`` is the entry that is being applied, and whether it is replayed.
        """
        self._moment = moment
        self._book = book
        self._keys = keys
        self._owners = owners
        self._routes = routes
        self._owned = owned
        self._end_sessions = end_sessions

    def changed(self, command: AccessChanged, waiter: Waiter, effects: Effects) -> None:
        index, recovering = self._moment()
        if recovering and self._book.loaded_version >= index:
            return  # the rows were taken after this entry
        changes = [Change(*change) for change in command.changes]
        before, was_open = set(self._book.users), self._book.is_open
        fault = self._book.apply(changes, command.expected, index)
        if not fault:
            for user in sorted(before - self._book.users.keys()):
                self._end_sessions(user)
                for part in self._owned:
                    part.forget_user(user, index, recovering=recovering)
            self.refresh()
            users = tuple(change.name for change in changes if change.kind == "user")
            is_wide = len(users) < len(changes) or self._book.is_open is not was_open
            effects.controls.append(AccessApplied(users, command.by, is_wide))
        if waiter is not None:
            effects.controls.append(Outcome(waiter, fault))

    def refresh(self) -> None:
        """Judge each route again, or not at all where there are no users."""
        self._routes.may_receive = None if self._book.is_open else self._owners.may_receive
        self._routes.forget_all()

    def keys_stored(
        self, command: KeyStored | KeysStored, waiter: Waiter, effects: Effects
    ) -> None:
        rows = command.rows if isinstance(command, KeysStored) else [command.row]
        for row in rows:
            self._keys.put(Key.decode(row))
        if not self._book.is_open:  # whoever logged in with a key is judged by it
            self.refresh()
            effects.controls.append(AccessApplied(()))
        if waiter is not None:
            effects.controls.append(Outcome(waiter, None))
