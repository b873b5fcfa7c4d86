"""What the pages of users, roles, tokens and bans have in common.

A change is durable and in force when the response arrives. ``expected`` is the version of the book
that the change was based on (every answer has it): if somebody else changed the book in the
meantime, the change is refused with 409. The log names who changed what, never a secret.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from starlette.requests import Request

from penstock.admin.guard import caller_of
from penstock.admin.pages import applied
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import AccessAdmin
from penstock.errors import AccessConflict
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.trust.book import ANY_VERSION, AccessBook, Change
from penstock.trust.principal import Principal

ATTEMPTS_MAX = 5  # to make a change while the book changes under it
LOGGED_MAX = 100  # rows of one change

_Row = TypeVar("_Row")

_log = get_logger("access")


class AccessPages:
    """Reads and changes the access book of a broker."""

    def __init__(self, admin: AccessAdmin) -> None:
        self._admin = admin

    @property
    def book(self) -> AccessBook:
        return self._admin.book

    def now_ms(self) -> int:
        return self._admin.wall_ms()

    def known(self, rows: Mapping[str, _Row], name: str, kind: str) -> _Row:
        found = rows.get(name)
        if found is None:
            advice = f"penstock {kind}s list shows all"
            raise RequestRefused(404, f"there is no {kind} {printable(name)}", advice)
        return found

    async def submit(
        self, request: Request, make: Callable[[], Sequence[Change]], expected: int = ANY_VERSION
    ) -> None:
        """Make the changes that ``make`` derives from the book as it is.

        One at a time: of two requests that change different fields of a user, the second must see
        what the first has done. If the book changes all the same (a password is hashed anew at a
        login), they are made again, unless the caller expects a version.
        """
        author = caller_of(request).principal
        async with self._admin.one_at_a_time:
            for attempt in range(ATTEMPTS_MAX):
                changes, version = make(), self.book.version
                wanted = version if expected == ANY_VERSION else expected
                try:
                    await applied(self._admin.change(changes, author, wanted), 409)
                except RequestRefused as refused:
                    is_conflict = isinstance(refused.__cause__, AccessConflict)
                    is_last = attempt == ATTEMPTS_MAX - 1
                    if is_conflict and expected == ANY_VERSION and not is_last:
                        continue
                    raise
                break
        _note(changes, author)


def _note(changes: Sequence[Change], author: Principal) -> None:
    for kind, name, row in changes[:LOGGED_MAX]:
        event = f"{kind}_removed" if row is None else f"{kind}_stored"
        _log.info(event, name=name, by=author.user or author.address)


def expiry(expires_s: int, now_ms: int) -> int:
    return now_ms + expires_s * 1000 if expires_s else 0
