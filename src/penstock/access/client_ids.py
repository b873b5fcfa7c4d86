"""Which client ids a user may have."""

import re
from functools import lru_cache


def id_text(client_id: bytes) -> str:
    return client_id.decode(errors="replace")


def is_among(client_id: str, patterns: tuple[str, ...]) -> bool:
    """Whether a client id matches one of the patterns, where ``*`` stands for any characters."""
    return _compiled(patterns).fullmatch(client_id) is not None


@lru_cache(maxsize=1_000)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    one = (".*".join(map(re.escape, re.split(r"\*+", pattern))) for pattern in patterns)
    return re.compile("|".join(one), re.DOTALL)
