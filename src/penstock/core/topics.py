"""Topics with settings: delivery rate and retention.

Most topics exist only through their messages: the journal knows them, and they follow the rules of
the configuration. Those of the queue protocol are created (by name, or by the first message), can
be configured, and can be deleted.
"""

from collections.abc import Iterator

import msgspec

from penstock.core.commands import TopicConfigured, TopicGone


class TopicSettings(msgspec.Struct, array_like=True):
    """The settings of one topic; 0: no limit."""

    name: bytes
    applied: int = 0  # last journal entry that this state contains; replay skips up to it
    rate_milli: int = 0  # messages delivered per thousand seconds
    burst: int = 0
    max_messages: int = 0
    max_age_ms: int = 0
    max_bytes: int = 0
    # whether messages that every group has finished stay until retention removes them
    keep: bool = False

    @property
    def is_limited(self) -> bool:
        return bool(self.max_messages or self.max_age_ms or self.max_bytes)


_FIELDS = ("rate_milli", "burst", "max_messages", "max_age_ms", "max_bytes", "keep")
_decoder = msgspec.msgpack.Decoder(TopicSettings)
_encoder = msgspec.msgpack.Encoder()


class Topics:
    """All topics that have settings, by name."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, TopicSettings] = {}
        self.dirty: dict[bytes, None] = {}  # names whose row on disk is outdated
        self.version = 0  # counts changes

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[TopicSettings]:
        return iter(self.by_name.values())

    def get(self, name: bytes) -> TopicSettings | None:
        return self.by_name.get(name)

    def configure(self, command: TopicConfigured, index: int, *, recovering: bool) -> bool:
        """Create a topic or change its settings; return whether it is new."""
        topic = self.by_name.get(command.topic)
        if topic is not None and recovering and topic.applied >= index:
            return False
        is_new = topic is None
        if topic is None:
            topic = self.by_name[command.topic] = TopicSettings(command.topic)
        for field in _FIELDS:
            value = getattr(command, field)
            if value is not None:
                setattr(topic, field, value)
        self._changed(command.topic)
        return is_new

    def forget(self, command: TopicGone, index: int, *, recovering: bool) -> bool:
        """Forget a topic's settings; return whether it had any."""
        topic = self.by_name.get(command.topic)
        if topic is None or (recovering and topic.applied >= index):
            return False
        del self.by_name[command.topic]
        self._changed(command.topic)
        return True

    def _changed(self, name: bytes) -> None:
        self.dirty[name] = None
        self.version += 1

    def row(self, name: bytes, index: int) -> bytes | None:
        topic = self.by_name.get(name)
        if topic is None:
            return None
        topic.applied = index
        return _encoder.encode(topic)

    def load(self, row: bytes) -> None:
        topic = _decoder.decode(row)
        self.by_name[topic.name] = topic
        self.version += 1
