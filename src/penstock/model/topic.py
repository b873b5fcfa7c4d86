"""Topic names and filters: what is well-formed, and how they split into levels.

A topic is its UTF-8 bytes, exactly as they came: MQTT compares by byte, without normalisation
[MQTT-4.7.3-4].
"""

from penstock.limits import TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX


def topic_fault(
    topic: bytes, bytes_max: int = TOPIC_BYTES_MAX, levels_max: int = TOPIC_LEVELS_MAX
) -> str:
    """What is wrong with a topic *name*; empty if nothing."""
    if b"+" in topic or b"#" in topic:
        return "wildcard in a topic name"  # [MQTT-3.3.2-2]
    return _common_fault(topic, bytes_max, levels_max)


def filter_fault(
    topic_filter: bytes, bytes_max: int = TOPIC_BYTES_MAX, levels_max: int = TOPIC_LEVELS_MAX
) -> str:
    """What is wrong with a topic *filter*; empty if nothing."""
    fault = _common_fault(topic_filter, bytes_max, levels_max)
    if fault or not has_wildcard(topic_filter):
        return fault
    levels = topic_filter.split(b"/")
    if b"#" in topic_filter and (topic_filter.count(b"#") > 1 or levels[-1] != b"#"):
        return "'#' must be the whole last level"  # [MQTT-4.7.1-2]
    if any(b"+" in level and level != b"+" for level in levels):
        return "'+' must be a whole level"  # [MQTT-4.7.1-3]
    return ""


def has_wildcard(topic_filter: bytes) -> bool:
    return b"+" in topic_filter or b"#" in topic_filter


def _common_fault(name: bytes, bytes_max: int, levels_max: int) -> str:
    if not name:
        return "empty"  # [MQTT-4.7.3-1]
    if len(name) > bytes_max:
        return f"longer than {bytes_max} bytes"
    if name.count(b"/") >= levels_max:
        return f"more than {levels_max} levels"
    if b"\0" in name:
        return "contains U+0000"  # [MQTT-4.7.3-2]
    return ""
