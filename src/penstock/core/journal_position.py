"""Where in the journal commands are being applied."""


class JournalPosition:
    """The entry, and the sequences of its messages. All parts of the state share one object."""

    __slots__ = (
        "base_sequence",
        "index",
        "is_recovering",
        "last_sequence",
        "published_left",
        "publisher",
    )

    def __init__(self) -> None:
        self.index = 0  # of the entry whose commands are being applied
        self.base_sequence = 0  # of its first message
        self.last_sequence = 0  # the highest that was applied
        # who published the next messages, and how many of them; see ``PublishedBy``
        self.publisher, self.published_left = b"", 0
        self.is_recovering = False  # whether loaded rows may contain what is applied

    def begin(self, index: int, base_sequence: int) -> None:
        self.index = index
        self.base_sequence = base_sequence
        self.published_left = 0
        if base_sequence > self.last_sequence:
            self.last_sequence = base_sequence - 1
