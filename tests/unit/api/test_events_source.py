"""The source ``events`` of the stream: what is recorded, as it happens."""

from tests.api_kit import ApiClient, Events

from penstock.client import connect
from penstock.testing import Broker


def visit(broker, name):
    with connect(broker.host, broker.port, name, keep_alive=0):
        pass
    broker.clock.advance(1)


def test_stream_tells_what_is_recorded_and_goes_on_where_it_was():
    with Broker() as broker:
        api = ApiClient(broker.port)
        visit(broker, "before")
        with Events(api, of="events") as events:
            assert events.until("started")["resumed"]
            visit(broker, "during")
            broker.clock.advance(1)
            told = [events.until("events") for _ in range(2)]
            last = events.last_id
        assert [(one["client_id"], one["kind"]) for one in told] == [
            ("during", "connected"),
            ("during", "ended"),
        ]
        visit(broker, "after")
        with Events(api, of="events", after=last) as events:
            assert events.until("started")["resumed"]
            assert events.until("events")["client_id"] == "after"
