"""Frames as other clients and brokers of this protocol encode them, to and from a running broker.

What is in a frame is written out in hexadecimal here, and each is sent as it stands.
"""

OK, PRODUCED_0, POLLED_NOTHING = "000000021a00", "000000020a00", "000000021200"
STATS = "00000002 4200"
PRODUCE_HELLO = "0000000c 0a0a 0a0174 2205 68656c6c6f"
PRODUCE_ALL_FIELDS = "00000012 0a10 0a0174 1007 1802 2202 6869 2a0170 302a"
POLL = "00000015 1213 0a0174 120167 180a 20e807 2a06 6d616e75616c"
ACK_LEASE_0 = "00000008 1a06 0a0174 120167"
SET_RATE_LIMIT = "00000010 520e 0a0174 11 000000000000e03f 1801"
BOOTSTRAP = "00000016 4a14 0a12 0801 120e 3132372e302e302e313a37373030"
SUBSCRIBE_AUTO = "00000014 6212 0a0174 120167 1810 20b0ea01 2a04 6175746f"


def test_stats_of_a_new_broker(dial, own_broker):
    """A cluster of one that leads in its first term, without topics."""
    client = dial(at=own_broker())
    client.send_hex(STATS)
    stats = client.receive().stats
    assert (stats.is_leader, stats.current_leader, stats.current_term) == (True, 1, 1)
    assert (stats.topics, stats.messages, stats.in_flight) == (0, 0, 0)


def test_bootstrap_is_answered_with_ok_every_time(dial, own_broker):
    """HermesMQ would at first refuse a list without the broker itself."""
    client = dial(at=own_broker())
    client.send_hex(BOOTSTRAP, "000000024a00", BOOTSTRAP)
    client.expect_hex(OK, OK, OK)


def test_a_message_from_produce_to_the_last_acknowledgement(dial, own_broker):
    broker = own_broker()
    client = dial(at=broker)
    client.send_hex(POLL)
    client.expect_hex(POLLED_NOTHING)
    client.send_hex(PRODUCE_HELLO)
    client.expect_hex(PRODUCED_0)
    client.send_hex(POLL)
    # Lease 0 and offset 0 are not on the wire; the time is that of the broker's clock.
    assert broker.clock.wall_ms() == 1_700_000_000_000
    client.expect_hex("00000012 1210 0a0e 2a05 68656c6c6f 3080d095ffbc31")
    client.send_hex(ACK_LEASE_0, ACK_LEASE_0)
    client.expect_hex(OK, OK)
    client.send_hex(POLL)
    client.expect_hex(POLLED_NOTHING)


def test_priority_content_type_and_producer_of_a_message(dial, own_broker):
    """A copy with the same number is the same message."""
    client = dial(at=own_broker())
    client.send_hex(PRODUCE_HELLO, PRODUCE_ALL_FIELDS, PRODUCE_ALL_FIELDS)
    client.expect_hex(PRODUCED_0, "00000004 0a02 0801", "00000004 0a02 0801")
    client.send_hex(POLL)
    # Priority 7 first: lease 0, offset 1, priority 7, type 2; then lease 1, offset 0.
    client.expect_hex(
        "00000027 1225"
        "0a11 1001 1807 2002 2a02 6869 3080d095ffbc31"
        "0a10 0801 2a05 68656c6c6f 3080d095ffbc31"
    )


def test_an_offset_of_two_bytes(dial, own_broker):
    client = dial(at=own_broker())
    client.send_hex(*[PRODUCE_HELLO] * 301)
    for _ in range(300):
        client.receive()
    client.expect_hex("00000005 0a03 08ac02")


def test_a_rate_limit_of_one_in_two_seconds(dial, own_broker):
    """The second poll is told to wait for two seconds, plus or minus the rounding."""
    client = dial(at=own_broker())
    client.send_hex(SET_RATE_LIMIT, PRODUCE_HELLO, PRODUCE_HELLO)
    client.expect_hex(OK, PRODUCED_0, "00000004 0a02 0801")
    client.send_hex(POLL, POLL)
    assert len(client.receive().polled.items) == 1
    error = client.receive().error
    assert error.code == "rate_limited"
    assert 2_000 <= error.retry_after_ms <= 2_001


def test_a_push_channel_in_auto_mode(dial, own_broker):
    broker = own_broker()
    consumer, producer = dial(at=broker), dial(at=broker)
    consumer.send_hex(SUBSCRIBE_AUTO)
    producer.send_hex(PRODUCE_HELLO)
    producer.expect_hex(PRODUCED_0)
    consumer.expect_hex("00000012 1210 0a0e 2a05 68656c6c6f 3080d095ffbc31")
