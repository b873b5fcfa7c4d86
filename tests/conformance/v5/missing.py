"""Which tests of version 5 are expected to fail, and what the broker lacks."""

MISSING: dict[str, str] = {}
