"""A few hundred mutated sessions at every door, plain and encrypted; ``make fuzz`` sends more."""

import random

from penstock.client import connect
from penstock.obs.reasons import DisconnectReason
from tests.fuzz.live import WITNESS, fuzzed_broker, send_session


def test_mutated_sessions_harm_nobody_else():
    chance = random.Random(7)
    with (
        fuzzed_broker() as (broker, tls),
        connect(broker.host, broker.port, "witness", credentials=WITNESS) as witness,
    ):
        witness.subscribe([("witness", 1)])
        for _ in range(200):
            send_session(chance, broker.host, broker.port, tls)
        witness.publish("witness", b"still here", qos=1)
        assert [one.payload for one in witness.receive(timeout_s=30)] == [b"still here"]
        assert broker.server.counters.disconnects[DisconnectReason.INTERNAL_ERROR] == 0
