"""``stream``, asked of a real broker whose clock the test moves."""

import pytest
from tests.api_kit import ApiClient, Events, served

from penstock.api.call import Call
from penstock.api.series import NAMES
from penstock.api.stream import (
    HEARTBEAT_S,
    LOGIN_STREAMS_MAX,
    Feed,
    Source,
    StreamEvent,
    StreamPages,
    StreamQuery,
)
from penstock.errors import StorageFull
from penstock.testing import Broker
from penstock.trust.book import removed
from penstock.trust.rows import User


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


def test_stream_tells_the_rates_each_second(broker, api):
    with Events(api, of="rates") as events:
        assert events.next() == ("started", {"of": ["rates"], "resumed": True, "heartbeat_s": 15.0})
        broker.clock.advance(1)
        first = events.until("rates")
        broker.clock.advance(1)
        second = events.until("rates")
    assert set(first["values"]) == set(NAMES)
    assert second["at"] > first["at"]


def test_stream_goes_on_where_it_was(broker, api):
    with Events(api, of="rates") as events:
        broker.clock.advance(1)
        seen = events.until("rates")
        last = events.last_id
    for _ in range(3):
        broker.clock.advance(1)
    for options in ({"after": last}, {"headers": {"last-event-id": last}}):
        with Events(api, of="rates", **options) as events:
            assert events.until("started")["resumed"]
            times = [events.until("rates")["at"] for _ in range(3)]
            assert times == sorted(set(times))
            assert times[0] > seen["at"]


@pytest.mark.parametrize("after", ["e30", "x", "eyJyYXRlcyI6IjUifQ", "eyJyYXRlcyI6InkifQ", "!"])
def test_stream_says_that_it_does_not_go_on(broker, api, after):
    broker.clock.advance(1)
    with Events(api, of="rates", after=after) as events:
        assert events.until("started")["resumed"] is (after in {"e30", "x", "!"})
        assert events.until("rates")


def test_quiet_stream_has_a_heartbeat():
    class Quiet(Source):
        name = "quiet"

        def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
            return QuietFeed()

    class Pages(StreamPages):
        sources = (Quiet,)

    beat = []
    with served(None, Pages, before=beat.append) as client, Events(client, of="quiet") as events:
        assert events.next()[0] == "started"
        for _ in range(HEARTBEAT_S):
            beat[0]()
        assert events.response.readline() == b": nothing new\n"


class QuietFeed:
    position = ""
    resumed = True

    async def read(self):
        return []

    def close(self):
        pass


class BrokenFeed(QuietFeed):
    async def read(self):
        raise StorageFull("the disk is full")


class CountingFeed(QuietFeed):
    def __init__(self, position):
        self.count = int(position or 0)

    @property
    def position(self):
        return str(self.count)

    async def read(self):
        self.count += 1
        return [StreamEvent("count", b"%d" % self.count)]


def test_source_that_fails_says_so_and_the_others_go_on():
    class Broken(Source):
        name = "broken"

        def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
            return BrokenFeed()

    class Counting(Source):
        name = "counting"

        def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:
            return CountingFeed(position)

    class Pages(StreamPages):
        sources = (Broken, Counting)

    beat = []
    with served(None, Pages, before=beat.append) as client:
        with Events(client, of="broken,counting") as events:
            failed = events.until("failed")
            assert failed["of"] == "broken"
            assert failed["problem"]["code"] == "storage_failed"
            assert events.until("count") == 1
            beat[0]()
            assert events.until("count") == 2
            last = events.last_id
        with Events(client, of="counting", after=last) as events:
            assert events.until("count") == 3


def test_login_has_so_many_streams(broker, api):
    streams = [Events(api, of="rates") for _ in range(LOGIN_STREAMS_MAX)]
    with Events(api, of="rates") as refused:
        assert refused.status == 429
        assert refused.document()["code"] == "too_many_streams"
    streams.pop().close()
    while (again := Events(api, of="rates")).status == 429:
        again.close()
    assert again.status == 200
    for stream in [*streams, again]:
        stream.close()


@pytest.mark.parametrize("of", ["", "weather", "rates,weather", ","])
def test_source_must_be_known(api, of):
    answer = api.get("stream", of=of)
    assert answer.status == 400
    assert "rates" in answer.document["advice"]


def test_stream_needs_the_rights_of_its_sources():
    with Broker() as broker:
        broker.add_user("root", "r", roles=("admin",))
        broker.add_user("ann", "a", rules=("allow publish #",))
        answer = ApiClient(broker.port, "ann", "a").get("stream", of="rates")
        assert (answer.status, answer.document["code"]) == (403, "forbidden")


@pytest.mark.parametrize("change", ["secret", "removed", "rights"])
def test_stream_ends_with_what_it_was_admitted_by(change):
    with Broker() as broker:
        broker.add_user("root", "r", roles=("admin",))
        broker.add_user("ann", "a", rules=("allow monitor",))
        with Events(ApiClient(broker.port, "ann", "a"), of="rates") as events:
            assert events.next()[0] == "started"
            broker.add_user("other", "o")
            broker.clock.advance(1)
            assert events.until("rates")
            if change == "secret":
                broker.add_user("ann", "b", rules=("allow monitor",))
            elif change == "removed":
                broker.change_access(removed(User("ann")))
            else:
                broker.add_user("ann", "a", rules=("allow read #",))
            broker.clock.advance(1)
            assert events.until("ended")["reason"] == "credentials_revoked"
            assert events.next() is None


def test_stopping_says_so_and_ends_the_stream():
    with Broker() as broker, Events(ApiClient(broker.port), of="rates") as events:
        assert events.next()[0] == "started"
        broker.stop()
        assert events.until("ended")["reason"] == "server_shutdown"
        assert events.next() is None
