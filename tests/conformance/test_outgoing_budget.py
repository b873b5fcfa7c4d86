"""What waits to be sent to all clients together is bounded, without slowing clients that read."""

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import puback, publish

pytestmark = both_versions

BUDGET = 4 << 20
SESSIONS, MESSAGES, PAYLOAD = 10, 100, bytes(100_000)
"""Ten million bytes for each: more than the system keeps for a socket."""


def test_sessions_that_come_back_and_do_not_read_stay_within_the_budget(own_broker, connect):
    """Ten clients are each due ten megabytes. A bystander is served; a client that reads gets all."""
    broker = own_broker(limits={"outgoing_bytes_max": "4MiB"})
    names = [f"session-{number}" for number in range(SESSIONS)]
    for name in names:
        client = connect(name, at=broker, clean=False)
        client.subscribe(("news", 1))
        client.disconnect()
    publisher = connect(at=broker)
    for number in range(MESSAGES):
        publisher.publish_acknowledged("news", number.to_bytes(2, "big") + PAYLOAD)
    bystander = connect(at=broker)
    bystander.subscribe(("other", 1))
    clients = []
    for name in names:
        clients.append(connect(name, at=broker, clean=False, session_present=True))
        publisher.publish_acknowledged("other", b"flows")
        bystander.send(puback(bystander.expect_publish("other", b"flows", qos=1)))
        assert outgoing(broker) <= BUDGET
    for _ in range(50):
        publisher.publish_acknowledged("other", b"flows")
        bystander.send(puback(bystander.expect_publish("other", b"flows", qos=1)))
        assert outgoing(broker) <= BUDGET
    for client in clients:
        for number in range(MESSAGES):
            _, packet_id, _, payload = client.receive_publish()
            assert payload[:2] == number.to_bytes(2, "big")
            client.send(puback(packet_id))
            assert outgoing(broker) <= BUDGET
        client.expect_nothing()
    assert broker.metrics()["penstock_outgoing_bytes_max"] == BUDGET


def outgoing(broker) -> int:
    return broker.call(lambda: broker.server.parts.connections.budget.used)


def test_live_messages_for_those_who_do_not_read_are_dropped_and_counted(own_broker, connect):
    broker = own_broker(limits={"outgoing_bytes_max": "4MiB"})
    lazy = [connect(at=broker) for _ in range(8)]
    for client in lazy:
        client.subscribe(("news", 0))
    publisher, bystander = connect(at=broker), connect(at=broker)
    bystander.subscribe(("news", 0))
    while not broker.metrics()['penstock_dropped_total{reason="slow_reader"}']:
        publisher.send(publish("news", PAYLOAD))
        bystander.expect(publish("news", PAYLOAD))
        assert outgoing(broker) <= BUDGET
