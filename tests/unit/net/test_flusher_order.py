"""In which order the output of a turn is written."""

import asyncio

from penstock.net.flusher import Flusher
from penstock.obs.counters import Counters


class Outbox:
    def __init__(self, name, written):
        self.name = name
        self.written = written

    def flush(self):
        self.written.append(self.name)


def test_who_asked_is_answered_before_others_get_what_came_of_it():
    """The answer to a publisher comes after the messages to its subscribers, and is written first."""

    async def turn():
        written = []
        flusher = Flusher(asyncio.get_running_loop(), lambda: 0.0, Counters())
        flusher.begin_turn()
        for name in ("subscriber", "another subscriber", "publisher"):
            flusher.flush_soon(Outbox(name, written))
        assert not written
        flusher.end_turn()
        return written

    assert asyncio.run(turn()) == ["publisher", "another subscriber", "subscriber"]
