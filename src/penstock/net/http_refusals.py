"""Refusals that are written before an application sees the request.

Below ``/api/`` they are problem documents (RFC 9457), as those of the API itself are.
"""

import json
from http import HTTPStatus

CODES = {413: "too_large", 415: "unsupported_media_type", 503: "unavailable"}


def refusal_body(path: str, status: int, error: str, advice: str) -> tuple[bytes, bytes]:
    """The media type and the body of a refusal."""
    if not path.startswith("/api/"):
        return b"application/json", _line({"error": error, "advice": advice})
    code = CODES[status]
    problem = {
        "type": f"urn:penstock:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error,
        "instance": path,
        "code": code,
        "reason": None,
        "advice": advice,
        "fields": [],
        "leader_addr": None,
    }
    return b"application/problem+json", _line(problem)


def _line(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode() + b"\n"
