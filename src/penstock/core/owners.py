"""To whom sessions belong, and what their owners may be sent.

A session, a durable subscriber and a sink belong to the user who began them. Another user with the
same name neither ends nor inherits them. The fold decides that, not a door: two nodes may have
accepted two users with one client id at the same moment.

What belongs to nobody (``user`` is empty) was begun before there were users, or by a client that
did not log in. The first user who presents the client id adopts it. ``roles`` tell what nobody may
do: ``local`` or ``anonymous``, as the listener saw it. They also limit users who came with a token.
Nobody without roles was written by an earlier version; what is queued for it is judged when
somebody adopts it.

The access book is part of the fold, so what a session may be sent is the same on all nodes and
after a replay. ``Routes.resolve`` asks once per topic and session, never per message.
"""

from collections.abc import Iterable, Iterator

from penstock.core.live import LiveSubscriber
from penstock.core.pending_will import PendingWill
from penstock.core.replay_routes import JoiningSubscription
from penstock.core.retained import Retained, RetainedMessage
from penstock.core.schedules import Schedule
from penstock.core.session import Session
from penstock.trust.book import RIGHTS_CACHED_MAX, AccessBook
from penstock.trust.key_logins import KeyRights, key_id_of
from penstock.trust.keys import Key, KeyRing
from penstock.trust.rights import NO_RIGHTS, Rights
from penstock.trust.rules import Action
from penstock.trust.touched import may_receive

LEVELS_TRIED_MAX = 32  # of a topic, as client ids of the author of its retained message

OWNED_BY_ANOTHER = "this client id belongs to another user"


def is_foreign(owner: str, user: str) -> bool:
    """Whether something of ``owner`` is refused to ``user``."""
    return bool(owner) and owner != user


class Owners:
    """Judges sessions and retained messages by the access book."""

    def __init__(self, book: AccessBook, keys: KeyRing, retained: Retained) -> None:
        self._book = book
        self._keys = keys
        self._retained = retained
        self._of_keys: dict[tuple[int, Key, bytes], Rights] = {}  # by version, key and client id

    def rights(self, session: Session | PendingWill | Schedule) -> Rights:
        if session.via == "key" and not self._book.is_open:
            return self._key_rights(session.user, session.client_id)
        return self._book.rights_for(session.user, session.roles, session.client_id, session.via)

    def _key_rights(self, user: str, client_id: bytes) -> Rights:
        """Of somebody who logged in with a signing key."""
        key = self._keys.get(key_id_of(user))
        if key is None or key.revoked_ms:
            return NO_RIGHTS
        known = self._book.version, key, client_id
        rights = self._of_keys.get(known)
        if rights is None:
            if len(self._of_keys) >= RIGHTS_CACHED_MAX:
                self._of_keys.clear()
            rules = self._book.rights_of_roles(("keys",)).rules()
            name = client_id.decode(errors="replace")
            rights = self._of_keys[known] = KeyRights(key, rules, name)
        return rights

    def may_receive(self, target: Session | LiveSubscriber, topic: bytes) -> bool:
        """Whether messages of a topic may be routed to a subscriber."""
        if isinstance(target, JoiningSubscription):
            target = target.session
        rights = self.rights(target) if isinstance(target, Session) else target.rights
        return may_receive(rights, topic)

    def may_be_offered(self, session: Session, topic: bytes) -> bool:
        """Whether the retained message of a topic may be sent for a new subscription."""
        if self._book.is_open:
            return True
        message = self._retained.get(topic)
        if message is not None and self.is_withheld(message):
            return False
        return may_receive(self.rights(session), topic)

    def is_withheld(self, message: RetainedMessage) -> bool:
        """Whether the author of a retained message may no longer publish to its topic."""
        if not message.author or self._book.is_open:
            return False
        # The client id is not known. A rule with %c is about one level of the topic, so one of the
        # levels is the id, if any.
        ids = (b"", *message.topic.split(b"/", LEVELS_TRIED_MAX)[:LEVELS_TRIED_MAX])
        return not any(self._may_publish(message, client_id) for client_id in ids)

    def _may_publish(self, message: RetainedMessage, client_id: bytes) -> bool:
        author = message.author
        if key_id_of(author):
            rights = self._key_rights(author, client_id)
        else:
            rights = self._book.rights_of(author, client_id.decode(errors="replace"))
        return rights.may(Action.PUBLISH, message.topic)

    def withheld(self) -> Iterable[RetainedMessage]:
        """Retained messages that nobody is sent, for administrators."""
        return filter(self.is_withheld, self._retained.match(b"#"))

    def walk_withheld(self) -> Iterator[RetainedMessage | None]:
        """The same step by step, in no particular order; None: a step in vain."""
        for message in self._retained.walk(b"#"):
            yield message if message is not None and self.is_withheld(message) else None
