"""The client for MicroPython against a real broker, in each machine."""

import socket
import threading

import pytest

from penstock.client import Publisher, Subscriber, Worker
from tests.clients.micropython.machines import TIMEOUT_S, RefusedError


def read(broker, topic, count):
    with Subscriber(f"reader of {topic}", topic, port=broker.port) as subscriber:
        return [subscriber.receive(TIMEOUT_S).payload for _ in range(count)]


def write(broker, topic, *payloads):
    with Publisher(port=broker.port) as publisher:
        publisher.publish_many(topic, payloads)


# ── Publishing ────────────────────────────────────────────────────────────────────────────────


def test_an_answered_publish_is_in_the_journal(broker, machine, topic):
    machine.connect(broker.port)
    machine.publish(topic, b"one")
    assert read(broker, topic, 1) == [b"one"]


def test_publishes_of_a_burst_arrive_in_their_order(broker, machine, topic):
    machine.connect(broker.port)
    payloads = [b"%d" % number for number in range(40)]
    for call in [machine.begin_publish(topic, payload) for payload in payloads]:
        machine.end(call)
    assert read(broker, topic, 40) == payloads


def test_a_refusal_names_its_reason_and_hits_its_publish_alone(broker, machine, topic):
    machine.connect(broker.port)
    calls = [machine.begin_publish(name, b"x") for name in (topic, "a/#", topic)]
    machine.end(calls[0])
    with pytest.raises(RefusedError, match=r"^Not a topic to publish to") as refusal:
        machine.end(calls[1])
    assert refusal.value.kind == "refused"
    machine.end(calls[2])


def test_a_large_publish_arrives_whole(broker, machine, topic):
    machine.connect(broker.port)
    payload = bytes(range(256)) * 400
    machine.publish(topic, payload)
    assert read(broker, topic, 1) == [payload]


def test_publishes_wait_for_a_broker_and_the_ring_refuses_what_does_not_fit(start, machine, topic):
    first = start()
    port = first.port
    first.stop()
    machine.connect(port, wait=False)
    for number in range(8):
        machine.publish(topic, b"%d" % number, wait=False)
    with pytest.raises(RefusedError) as refusal:
        machine.publish(topic, b"8", wait=False)
    assert refusal.value.kind == "full"
    with start("--listen", f"127.0.0.1:{port}", listen=False) as broker:
        machine.ask("flush")
        assert read(broker, topic, 8) == [b"%d" % number for number in range(8)]


def test_a_publish_that_timed_out_before_it_was_sent_is_never_stored(start, machine, topic):
    first = start()
    port = first.port
    first.stop()
    machine.connect(port, wait=False)
    with pytest.raises(RefusedError) as refusal:
        machine.publish(topic, b"late", timeout_ms=300)
    assert refusal.value.kind == "timeout"
    with start("--listen", f"127.0.0.1:{port}", listen=False) as broker:
        machine.publish(topic, b"next")
        assert read(broker, topic, 1) == [b"next"]


def test_a_wrong_address_is_reported_at_once(machine):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(RefusedError) as refusal:
            machine.connect(unused.getsockname()[1])
    assert refusal.value.kind == "failed"


def test_what_is_not_a_broker_is_recognised(machine):
    """It answers, but in another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RefusedError, match="not in the binary protocol"):
            machine.connect(server.getsockname()[1])
        thread.join()


def test_the_second_node_serves_when_the_first_is_gone(broker, machine, topic):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nodes = [["127.0.0.1", unused.getsockname()[1]], ["127.0.0.1", broker.port]]
        machine.ask("connect", nodes=nodes)
    machine.publish(topic, b"x")
    assert read(broker, topic, 1) == [b"x"]


# ── Subscribing ───────────────────────────────────────────────────────────────────────────────


def test_a_named_subscriber_gets_history_then_new_messages_each_once(
    broker, machine, another, topic
):
    payloads = [b"%d" % number for number in range(50)]
    write(broker, topic, *payloads)
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=topic)
    assert machine.payloads(50) == payloads
    write(broker, topic, b"live")
    assert machine.payloads(1) == [b"live"]
    machine.ask("flush")
    machine.ask("close")
    second = another()
    second.connect(broker.port, client_id=topic)
    second.ask("subscribe", topic=topic)
    write(broker, topic, b"last")
    assert second.payloads(1) == [b"last"]


def test_what_was_not_acknowledged_comes_again_to_the_next_process(broker, machine, another, topic):
    write(broker, topic, b"0", b"1", b"2")
    machine.connect(broker.port, client_id=topic)
    machine.ask("auto_ack", on=False)
    machine.ask("subscribe", topic=topic)
    sequences = [machine.message()["sequence"] for _ in range(3)]
    machine.ask("ack", sequence=sequences[1])
    machine.ask("flush")
    machine.kill()
    second = another()
    second.connect(broker.port, client_id=topic)
    second.ask("subscribe", topic=topic)
    assert second.payloads(2) == [b"0", b"2"]


def test_a_filter_gets_what_is_published_meanwhile(broker, machine, topic):
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=f"{topic}/+")
    write(broker, f"{topic}/a", b"a")
    said = machine.message()
    assert (said["topic"], said["payload"]) == (f"{topic}/a", b"a")


def test_unsubscribing_ends_the_messages(broker, machine, topic):
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=topic)
    write(broker, topic, b"0")
    assert machine.payloads(1) == [b"0"]
    machine.ask("unsubscribe", topic=topic)
    write(broker, topic, b"1")
    assert machine.has_no_more()


def test_a_refused_subscription_is_an_error(broker, machine):
    machine.connect(broker.port)
    with pytest.raises(RefusedError, match="Cannot subscribe"):
        machine.ask("subscribe", topic="a/#/b")


def test_a_message_larger_than_the_buffer_is_skipped_told_and_never_sent_again(
    broker, machine, another, topic
):
    write(broker, topic, b"a", b"x" * 100_000, b"b")
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=topic)
    assert machine.payloads(1) == [b"a"]
    assert "100000 bytes" in machine.event("lost")["text"]
    assert machine.payloads(1) == [b"b"]
    machine.ask("flush")
    machine.kill()
    second = another()
    second.connect(broker.port, client_id=topic)
    second.ask("subscribe", topic=topic)
    write(broker, topic, b"c")
    assert second.payloads(1) == [b"c"]
    assert second.ask("stats")["lost"] == 0


def test_a_topic_longer_than_binary_clients_can_name_arrives(broker, machine, topic):
    import paho.mqtt.publish as paho

    machine.connect(broker.port, client_id=topic, rx=2048)
    machine.ask("subscribe", topic=f"{topic}/#")
    name = f"{topic}/{'n' * 1000}"
    paho.single(name, b"x", qos=1, hostname="127.0.0.1", port=broker.port)
    assert machine.message()["topic"] == name


def test_another_connection_with_the_name_ends_the_client_for_good(broker, machine, another, topic):
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=topic)
    second = another()
    second.connect(broker.port, client_id=topic)
    second.ask("subscribe", topic=topic)
    machine.state("taken_over")
    with pytest.raises(RefusedError) as refusal:
        machine.publish(topic, b"x")
    assert refusal.value.kind == "taken_over"
    second.publish(topic, b"y")
    assert second.payloads(1) == [b"y"]


def test_a_publish_is_answered_though_nobody_takes_the_messages_before_its_answer(
    broker, machine, topic
):
    """A program that publishes in its loop over messages must not wait for ever."""
    write(broker, topic, *(b"%d" % number for number in range(200)))
    machine.connect(broker.port, client_id=topic)
    machine.ask("auto_ack", on=False)
    machine.ask("subscribe", topic=topic)
    sequences = [machine.message()["sequence"] for _ in range(16)]
    machine.publish(f"{topic}/answer", b"x")
    for sequence in sequences:
        machine.ask("ack", sequence=sequence)
    rest = [machine.message() for _ in range(16)]
    assert [said["payload"] for said in rest] == [b"%d" % number for number in range(16, 32)]


# ── Queues ────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_gets_jobs_and_its_jobs_go_to_another_when_it_dies(
    broker, machine, another, topic
):
    write(broker, f"q:{topic}", b"0", b"1")
    machine.connect(broker.port, client_id=f"{topic}-1")
    machine.ask("auto_ack", on=False)
    machine.ask("subscribe", topic=f"q:{topic}")
    jobs = [machine.message() for _ in range(2)]
    machine.ask("ack", sequence=jobs[0]["sequence"])
    machine.ask("flush")
    second = another()
    second.connect(broker.port, client_id=f"{topic}-2")
    second.ask("subscribe", topic=f"q:{topic}")
    machine.kill()
    assert second.payloads(1) == [b"1"]


def test_jobs_that_it_pushes_go_to_a_worker_in_python(broker, machine, topic):
    machine.connect(broker.port)
    machine.publish(f"q:{topic}", b"job")
    with Worker(topic, "w", port=broker.port) as worker:
        assert next(iter(worker)).payload == b"job"
