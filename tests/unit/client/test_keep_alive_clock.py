"""When the client pings, and when it gives up."""

from math import inf

from penstock.client.mqtt.keep_alive import KeepAlive


def test_ping_is_due_after_half_the_interval_and_once():
    """[MQTT-3.1.2-23]"""
    watch = KeepAlive(60, 10, now=100)
    assert watch.next_at == 130
    assert not watch.ping_due(129.9)
    assert watch.ping_due(130)
    assert not watch.ping_due(130)


def test_what_was_sent_puts_the_ping_off():
    watch = KeepAlive(60, 10, now=100)
    watch.sent(120)
    assert not watch.ping_due(130)
    assert watch.ping_due(150)


def test_broker_that_does_not_answer_a_ping_is_lost():
    watch = KeepAlive(60, 10, now=100)
    watch.ping_due(130)
    assert watch.next_at == 140
    assert not watch.is_lost(139.9)
    assert watch.is_lost(140)


def test_anything_heard_counts_as_an_answer():
    watch = KeepAlive(60, 10, now=100)
    watch.ping_due(130)
    watch.heard()
    assert not watch.is_lost(1000)


def test_further_pings_do_not_put_the_end_off():
    """With a short interval there is a second ping before the first has been given up."""
    watch = KeepAlive(4, 10, now=0)
    for now in (2, 4, 6, 8, 10):
        assert watch.ping_due(now)
    assert watch.is_lost(12)


def test_interval_of_zero_means_never():
    watch = KeepAlive(0, 10, now=100)
    assert watch.next_at == inf
    assert not watch.ping_due(1e9)
