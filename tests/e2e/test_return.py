"""A session that reconnects under load first gets what waited, then new messages."""

import threading

from tests.conformance.wire_client import WireClient, connack, connect_packet, puback, publish

ROUNDS = 8
LOT = 50
"""Messages per round; some wait, the others arrive while those are sent."""
QUEUED = 20
"""Fewer than one read of the journal returns: the first read is also the last."""


def arrived(client, last):
    """Payloads up to ``last``, each acknowledged."""
    numbers = []
    while not numbers or numbers[-1] != last:
        _, packet_id, _, payload = client.receive_publish()
        client.send(puback(packet_id))
        numbers.append(int(payload))
    return numbers


def stream(client, begin, count):
    """Publish numbers one by one, so that there are many commits; return the last one."""
    for number in range(begin, begin + count):
        client.publish_acknowledged("t", b"%d" % number, packet_id=number % 1_000 + 1)


def test_new_messages_do_not_overtake_those_that_waited(start):
    broker = start()
    publisher = WireClient(broker.host, broker.port)
    publisher.send(connect_packet("publisher"))
    publisher.expect(connack())
    with publisher:
        subscriber = WireClient(broker.host, broker.port)
        subscriber.send(connect_packet("away", clean=False))
        subscriber.expect(connack())
        subscriber.subscribe(("t", 1))
        subscriber.disconnect()
        subscriber.socket.close()
        for number in range(ROUNDS):
            come_back(broker, publisher, number * LOT)


def come_back(broker, publisher, begin):
    """Queue some, reconnect while more are published, and expect all of them in order."""
    for number in range(begin, begin + QUEUED):
        publisher.send(publish("t", b"%d" % number, qos=1, packet_id=number % 1_000 + 1))
    for number in range(begin, begin + QUEUED):
        publisher.expect(puback(number % 1_000 + 1))
    traffic = threading.Thread(target=stream, args=(publisher, begin + QUEUED, LOT - QUEUED))
    traffic.start()
    with WireClient(broker.host, broker.port) as subscriber:
        subscriber.send(connect_packet("away", clean=False))
        subscriber.expect(connack(session_present=True))
        numbers = arrived(subscriber, begin + LOT - 1)
        traffic.join()
        assert numbers == list(range(begin, begin + LOT))
        subscriber.disconnect()
