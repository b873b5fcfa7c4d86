"""Why a request of the queue protocol is refused: the content of an Error response."""

from typing import Final, NamedTuple

BAD_REQUEST: Final = "bad_request"
PAYLOAD_TOO_LARGE: Final = "payload_too_large"
RATE_LIMITED: Final = "rate_limited"
INTERNAL: Final = "internal"
NOT_LEADER: Final = "not_leader"
NO_QUORUM: Final = "no_quorum"
BOOTSTRAP_FAILED: Final = "bootstrap_failed"
FORBIDDEN: Final = "forbidden"
LIMIT: Final = "limit"
UNAUTHENTICATED: Final = "unauthenticated"
NOT_AUTHORIZED: Final = "not_authorized"


class Fault(NamedTuple):
    """A code for programs and a text for people."""

    code: str
    text: str
    retry_ms: int = 0
    leader_addr: str = ""  # where to ask, if another node leads
