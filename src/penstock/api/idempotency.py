"""Changes that are asked for twice and made once: ``Idempotency-Key``.

Who does not get the answer to a change (a broken connection, a page that was reloaded) asks again
with the same key, and gets the answer that was made then. Refused changes are not kept: they
changed nothing and may be tried again.

Answers are in memory, of one node: after a restart a repetition is a new change.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.responses import Response

from penstock.api.problems import Problem
from penstock.limits import KIB, MIB

KEPT_S = 600.0
KEYS_MAX = 1_000
BYTES_MAX = 8 * MIB  # of all answers that are kept
ANSWER_BYTES_MAX = 256 * KIB  # larger ones are not kept; none of a change is near

_KEY = re.compile(r"[!-~]{1,128}")


class _Kept(NamedTuple):
    asked: bytes  # digest of what was asked for
    answer: Response | None  # None: it is under way
    until: float

    @property
    def size(self) -> int:
        return len(self.answer.body) if self.answer is not None else 0


class Answers:
    """What was answered to changes with a key."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[object, _Kept] = OrderedDict()
        self._bytes = 0

    async def once(
        self,
        caller: object,
        key: str,
        asked: bytes,
        now: float,
        make: Callable[[], Awaitable[Response]],
    ) -> Response:
        """The answer of ``make``, or that of the first time."""
        if not _KEY.fullmatch(key):
            advice = "use up to 128 letters, digits and signs, such as a UUID"
            raise Problem(400, "invalid_idempotency_key", "the key is not valid", advice)
        self._forget(now)
        found = self._by_key.get((caller, key))
        if found is not None:
            return _repeated(found, asked)
        self._keep((caller, key), _Kept(asked, None, now + KEPT_S))
        try:
            answer = await make()
        except BaseException:
            self._by_key.pop((caller, key), None)
            raise
        self._by_key.pop((caller, key), None)
        if len(answer.body) <= ANSWER_BYTES_MAX:
            self._keep((caller, key), _Kept(asked, answer, now + KEPT_S))
        return answer

    def _keep(self, key: object, kept: _Kept) -> None:
        self._by_key[key] = kept
        self._bytes += kept.size
        while len(self._by_key) > KEYS_MAX or self._bytes > BYTES_MAX:
            _, oldest = self._by_key.popitem(last=False)
            self._bytes -= oldest.size

    def _forget(self, now: float) -> None:
        while self._by_key and next(iter(self._by_key.values())).until <= now:
            _, oldest = self._by_key.popitem(last=False)
            self._bytes -= oldest.size


def _repeated(found: _Kept, asked: bytes) -> Response:
    if found.asked != asked:
        advice = "use a new key for another change"
        raise Problem(422, "idempotency_key_reused", "the key was used for something else", advice)
    if found.answer is None:
        advice = "ask again in a moment"
        headers = {"retry-after": "1"}
        raise Problem(409, "in_progress", "this change is under way", advice, headers=headers)
    headers = {name: value for name, value in found.answer.headers.items() if name != "set-cookie"}
    headers["idempotent-replay"] = "true"
    return Response(found.answer.body, found.answer.status_code, headers)
