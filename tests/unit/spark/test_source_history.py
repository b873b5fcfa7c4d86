"""Whatever happens, in whatever order: each message is a row once, or reported as lost.

Random histories of a broker that is written to, has topics deleted and made anew, is restarted and
killed, and of a stream that is killed wherever it may be. What came of it is compared with what
was published. Each history is known by its seed: to see one again, name it.
"""

import json
import random
from collections import Counter

import pytest
from tests.unit.spark.readers import Stream, fill, source

from penstock.client.queue.blocking import QueueClient
from penstock.spark.options import source_options
from penstock.spark.topic_watch import TopicWatch
from penstock.testing import Broker

TOPICS = [f"s/{number}" for number in range(7)]
STEPS = 120


class History:
    """What was published, and what a stream has made of it."""

    def __init__(self, seed: int, broker: Broker, client: QueueClient, stream: Stream) -> None:
        self.random = random.Random(seed)
        self.broker, self.client, self.stream = broker, client, stream
        self.published: dict[int, tuple[str, int, int]] = {}
        """By payload: topic, incarnation, offset."""
        self.unseen: set[int] = set()
        """Published since the stream has looked last."""
        self.unknown: set[int] = set()
        """Deleted before the stream knew of them: their loss cannot be detected."""
        self.rows: list[dict] = []

    def write(self) -> None:
        for topic in self.random.sample(TOPICS, self.random.randint(1, 5)):
            first, count = len(self.published), self.random.randint(1, 9)
            fill(self.client, topic, count, first)
            found = self.client.locate(topic)
            for place in range(count):
                number = first + place
                offset = found.end_offset - count + place
                self.published[number] = (topic, found.incarnation, offset)
                self.unseen.add(number)

    def delete(self) -> None:
        topic = self.random.choice(TOPICS)
        incarnation = self.client.locate(topic).incarnation
        self.client.delete_topic(topic)
        is_known = incarnation in self._known_incarnations(topic)
        self.unknown |= {
            number
            for number, place in self.published.items()
            if place[:2] == (topic, incarnation) and (number in self.unseen or not is_known)
        }

    def _known_incarnations(self, topic: str) -> set[int]:
        """Those recorded in the log."""
        ends = [self.stream.offset, self.stream.logged and self.stream.logged[1]]
        return {end["topics"][topic][0] for end in ends if end and topic in end["topics"]}

    def restart_broker(self) -> None:
        self.broker.restart(kill=self.random.random() < 0.5)

    def kill_driver(self) -> None:
        self.stream.restart()

    def available_now(self) -> None:
        """End, and begin again with another trigger."""
        self.stream.restart()
        self.unseen.clear()
        self.stream.prepare()

    def plan(self) -> None:
        """Write a batch down; it may be killed before it runs."""
        if self.stream.logged is None:
            self.stream.log()
            self.unseen.clear()

    def run(self) -> None:
        self.plan()
        if self.stream.logged is not None:
            self.rows += self.stream.run()

    def fail(self) -> None:
        """Run a batch, and be killed before it is committed: its rows count for nothing."""
        self.plan()
        before, logged = self.stream.offset, self.stream.logged
        if logged is not None:
            self.stream.run()
            self.stream.offset, self.stream.logged = before, logged
            self.stream.restart()

    def commit(self) -> None:
        if self.stream.offset is not None:
            self.stream.commit()

    def recut(self) -> None:
        """Cut batches otherwise from now on."""
        options = dict(self.stream.source.options)
        options |= {"minpartitions": str(self.random.randint(1, 5))}
        self.stream.source = type(self.stream.source)(type(self.stream.source.options)(options))
        self.stream.restart()

    def finish(self) -> None:
        self.stream.restart()
        self.run()
        while self.stream.log():
            self.rows += self.stream.run()


STEPS_BY_WEIGHT = {
    History.write: 8,
    History.delete: 2,
    History.restart_broker: 1,
    History.kill_driver: 2,
    History.available_now: 1,
    History.plan: 3,
    History.run: 6,
    History.fail: 2,
    History.commit: 2,
    History.recut: 1,
}


def losses(client: QueueClient) -> list[dict]:
    if client.topic("losses") is None:
        return []
    return [json.loads(record.payload) for record in client.messages("losses")]


def is_told(place: tuple[str, int, int], told: list[dict]) -> bool:
    topic, incarnation, offset = place
    return any(
        (loss["topic"], loss["incarnation"]) == (topic, incarnation)
        and loss["begin"] <= offset
        and (loss["end"] is None or offset < loss["end"])
        for loss in told
    )


@pytest.mark.parametrize("seed", range(5))
def test_each_message_is_a_row_once_or_told_to_be_lost(broker, servers, client, monkeypatch, seed):
    monkeypatch.setattr("penstock.doors.queue.changes.PAGE_MAX", 3)
    monkeypatch.setattr("penstock.reading.changes.TOPICS_MAX", 5)
    monkeypatch.setattr("penstock.doors.queue.fetch.RAW_BYTES_MAX", 8)
    monkeypatch.setattr("penstock.spark.topic_watch.SINGLE_MAX", 2)
    options = {"maxOffsetsPerTrigger": 20} if seed % 2 else {"maxBytesPerTrigger": 60}
    stream = Stream(
        servers,
        subscribe="s/#",
        failOnDataLoss=False,
        lossTopic="losses",
        includeIncarnation=True,
        **({"reader": "q"} if seed % 3 else {}),
        **options,
    )
    history = History(seed, broker, client, stream)
    steps = list(STEPS_BY_WEIGHT)
    for step in history.random.choices(steps, STEPS_BY_WEIGHT.values(), k=STEPS):
        step(history)
    history.finish()

    found = {int(row["payload"]): row for row in history.rows}
    assert len(found) == len(history.rows), "a row came twice"
    for number, row in found.items():
        place = (row["topic"], row["incarnation"], row["offset"])
        assert place == history.published[number]
    told = losses(client)
    missing = history.published.keys() - found.keys() - history.unknown
    assert {it for it in missing if not is_told(history.published[it], told)} == set()


@pytest.mark.parametrize("seed", range(2))
def test_no_change_is_missed(broker, servers, client, monkeypatch, seed):
    """However much has changed, and whatever others request: a poll returns the current state."""
    monkeypatch.setattr("penstock.doors.queue.changes.PAGE_MAX", 3)
    monkeypatch.setattr("penstock.reading.changes.TOPICS_MAX", 5)
    options = source_options(dict(source(servers, subscribe="s/#").options))
    watches = [TopicWatch(options), TopicWatch(options)]
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    for _ in range(STEPS):
        for topic in chance.sample(TOPICS, chance.randint(0, 7)):
            if chance.random() < 0.2:
                client.delete_topic(topic)
            else:
                fill(client, topic, 1, counts.total())
                counts[topic] += 1
        if chance.random() < 0.05:
            broker.restart(kill=chance.random() < 0.5)
        for watch in watches:
            if chance.random() < 0.5:
                watch.refresh()
                fresh = TopicWatch(options)
                fresh.refresh()
                assert watch.topics == fresh.topics
