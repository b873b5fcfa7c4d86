"""Requests that are refused: the status, the reason and what to do instead."""

from starlette.exceptions import HTTPException

from penstock.errors import NotLeader


class RequestRefused(HTTPException):
    """A request that is refused; ``advice`` tells the client what to do instead."""

    def __init__(
        self, status: int, error: str, advice: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, error, headers)
        self.advice = advice


class Misdirected(RequestRefused):
    """A request that only the leader can serve; it carries the leader's address."""

    def __init__(self, error: NotLeader) -> None:
        super().__init__(421, error.message, error.advice)
        self.leader_addr = error.leader_addr
