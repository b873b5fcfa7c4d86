"""Topics, groups and dead letters of a broker that has nothing else: no journal, no dispatchers."""

import asyncio
from types import SimpleNamespace

from asking import Current

from penstock.core.commands import GroupGone, GroupMade, GroupMoved, TopicGone
from penstock.core.groups import Groups
from penstock.core.topics import Topics
from penstock.model.dead_letters import dead_letter_topic
from penstock.model.message import Extras, Message
from penstock.store.store import TopicInfo


class Store:
    """Topics with given numbers of messages, and readable dead letters."""

    def __init__(self):
        self.infos = {}
        self.letters = {}

    def have(self, topic, end, first=0):
        self.infos[topic] = TopicInfo(1, topic, first, end, 10 * (end - first), 0)

    def topic(self, name):
        return self.infos.get(name)

    def read_topic(self, topic, offset, count_max, _bytes_max):
        found = [m for m in self.letters.get(topic, []) if m.offset >= offset][:count_max]
        return SimpleNamespace(messages=lambda: iter(found))


class Book(Current):
    """Applies the changes of pages; each takes a turn of the loop, like a commit."""

    def __init__(self):
        self.store = Store()
        self.topics = Topics()
        self.groups = Groups()
        self.working = {}
        self.settled_letters = {}
        self.error = None
        self.is_redriving = False
        self.moved_to = []

    def first_offset(self, topic):
        info = self.store.topic(topic)
        return info.first_offset if info else 0

    def lag(self, group):
        info = self.store.topic(group.topic)
        return group.lag(info.next_offset, info.first_offset) if info else 0

    def messages(self, topic):
        info = self.store.topic(topic)
        return info.count if info else 0

    def consumers(self, topic, group):
        return self.working.get((topic, group), 0)

    def first_letter(self, letters):
        return self.settled_letters.get(letters, 0)

    def letter_count(self, letters):
        return len(self.store.letters.get(letters, [])) - self.first_letter(letters)

    async def configure_topic(self, command):
        await self._commit()
        self.topics.configure(command, 1, recovering=False)

    async def delete_topic(self, topic):
        await self._commit()
        self.topics.forget(TopicGone(topic), 1, recovering=False)
        self.groups.forget_topic(topic, 1, recovering=False)
        self.store.infos.pop(topic, None)

    async def make_group(self, topic, group, at, value):
        await self._commit()
        info = self.store.topic(topic)
        start = {"offset": value, "latest": info.next_offset if info else 0}.get(at, 0)
        self.moved_to.append((at, value))
        return self.apply(GroupMade(topic, group, start))

    async def move_group(self, topic, group, at, value):
        await self._commit()
        self.moved_to.append((at, value))
        self.apply(GroupMoved(topic, group, value))

    async def configure_group(self, command):
        await self._commit()
        self.apply(command)

    async def delete_group(self, topic, group):
        await self._commit()
        self.apply(GroupGone(topic, group))

    async def redrive(self, topic, group, maximum):
        return await self._move_letters(topic, group, maximum)

    async def drop(self, topic, group):
        return await self._move_letters(topic, group, 10**9)

    async def _move_letters(self, topic, group, maximum):
        await self._commit()
        letters = dead_letter_topic(topic, group)
        moved = 0 if self.is_redriving else min(self.letter_count(letters), maximum)
        self.settled_letters[letters] = self.first_letter(letters) + moved
        return moved

    async def _commit(self):
        await asyncio.sleep(0)
        if self.error:
            raise self.error

    def apply(self, command):
        return self.groups.apply(command, 1, recovering=False)

    def bury(self, topic, group, *payloads, own=()):
        """Let there be dead letters of a group."""
        letters = dead_letter_topic(topic, group)
        lies = self.store.letters.setdefault(letters, [])
        for payload in payloads:
            number = len(lies)
            headers = (
                (b"dlq-topic", topic),
                (b"dlq-group", group),
                (b"dlq-offset", b"%d" % (40 + number)),
                (b"dlq-attempts", b"5"),
                (b"dlq-reason", b"no paper"),
                (b"dlq-time", b"1"),
                *own,
            )
            lies.append(
                Message(letters, payload, 1, number, 1_700_000_000_000, 1, Extras(headers=headers))
            )
