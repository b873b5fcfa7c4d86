"""Two nodes authenticate each other; without the secret this fails."""

import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import (
    HANDSHAKE_BYTES_MAX,
    NO_CLUSTER,
    NONCE_BYTES,
    Answerer,
    Dialer,
    Identity,
    Purpose,
)
from penstock.obs.reasons import PeerReason

SECRET = b"a secret of the whole cluster"
CLUSTER = bytes(range(16))
ONE = Identity(1, 111, CLUSTER, "127.0.0.1:7701")
TWO = Identity(2, 222, CLUSTER, "127.0.0.1:7702")


def nonce():
    return os.urandom(NONCE_BYTES)


def dialer(me=ONE, target=2, secret=SECRET, purpose=Purpose.BULK):
    return Dialer(me, target, purpose, secret, nonce())


def answerer(me=TWO, secret=SECRET, admit=lambda _hello: None):
    return Answerer(me, secret, nonce(), admit)


def shake(one, two):
    """Carry everything between the two; return what was said."""
    challenge = two.received(one.hello)
    proof = one.received(challenge)
    accepted = two.received(proof)
    assert one.received(accepted) is None
    return one.hello, challenge, proof, accepted


def refused(reason, action):
    with pytest.raises(PeerFault) as caught:
        action()
    assert caught.value.reason is reason
    return caught.value


def test_both_sides_end_with_the_same_keys_and_know_each_other():
    one, two = dialer(), answerer()
    said = shake(one, two)
    assert one.session.send_key == two.session.receive_key
    assert one.session.receive_key == two.session.send_key
    assert one.session.send_key != one.session.receive_key
    assert (one.session.node_id, one.session.incarnation) == (2, 222)
    assert (two.session.node_id, two.session.incarnation) == (1, 111)
    assert two.session.purpose is Purpose.BULK
    assert two.session.address == ONE.address
    assert max(map(len, said)) < HANDSHAKE_BYTES_MAX


def test_every_connection_has_its_own_keys():
    pairs = [(dialer(), answerer()) for _ in range(2)]
    for pair in pairs:
        shake(*pair)
    assert pairs[0][0].session.send_key != pairs[1][0].session.send_key


def test_the_secret_and_the_keys_are_not_said_nor_shown():
    one, two = dialer(), answerer()
    said = b"".join(shake(one, two))
    shown = repr(one.session).encode()
    for hidden in (SECRET, one.session.send_key, one.session.receive_key):
        assert hidden not in said
        assert hidden not in shown
        assert repr(hidden).encode() not in shown


@pytest.mark.parametrize("secret", [b"", b"another secret, quite as long"])
def test_a_dialer_with_another_secret_is_refused(secret):
    one, two = dialer(secret=secret), answerer()
    proof = one.received(two.received(one.hello))
    refused(PeerReason.WRONG_SECRET, lambda: two.received(proof))
    assert two.session is None


def test_an_answerer_with_another_secret_is_refused():
    """One that accepts whatever proof it is shown."""
    one, two = dialer(), answerer(secret=b"another secret, quite as long")
    challenge = two.received(one.hello)
    one.received(challenge)
    stranger = Dialer(ONE, 2, Purpose.BULK, two._secret, nonce())
    stranger.hello = one.hello
    accepted = two.received(stranger.received(challenge))
    refused(PeerReason.WRONG_SECRET, lambda: one.received(accepted))
    assert one.session is None


def test_a_recorded_handshake_can_not_be_played_again():
    hello, _, proof, _ = shake(dialer(), answerer())
    two = answerer()
    two.received(hello)
    refused(PeerReason.WRONG_SECRET, lambda: two.received(proof))


def test_a_recorded_answer_can_not_be_played_again():
    _, challenge, _, accepted = shake(dialer(), answerer())
    one = dialer()
    one.received(challenge)
    refused(PeerReason.WRONG_SECRET, lambda: one.received(accepted))


def test_a_dialer_whose_words_are_sent_back_to_him_believes_nothing():
    """The reflection: what he says, proof and all, comes back as the other side's."""
    one = dialer()
    refused(PeerReason.MALFORMED_FRAME, lambda: one.received(one.hello))
    one, two = dialer(), answerer()
    proof = one.received(two.received(one.hello))
    mirrored = msgspec.msgpack.encode([4, msgspec.msgpack.decode(proof)[1]])
    refused(PeerReason.WRONG_SECRET, lambda: one.received(mirrored))


def test_a_proof_that_was_got_by_dialing_back_is_of_no_use():
    """The oracle: a stranger has node 1 prove itself to him, and shows that proof to node 2."""
    two = answerer()
    stranger_hello = dialer(secret=b"").hello
    challenge = two.received(stranger_hello)
    one = dialer()  # node 1 dials the stranger, who passes on node 2's challenge
    proof = one.received(challenge)
    refused(PeerReason.WRONG_SECRET, lambda: two.received(proof))


def test_nodes_without_a_secret_accept_each_other():
    one, two = dialer(secret=b""), answerer(secret=b"")
    shake(one, two)
    assert one.session is not None


def test_a_node_of_another_cluster_is_refused():
    one, two = dialer(msgspec.structs.replace(ONE, cluster_id=bytes(15) + b"x")), answerer()
    proof = one.received(two.received(one.hello))
    refused(PeerReason.WRONG_CLUSTER, lambda: two.received(proof))


@pytest.mark.parametrize("who", ["dialer", "answerer"])
def test_a_node_of_no_cluster_yet_may_talk_to_one(who):
    new = {"cluster_id": NO_CLUSTER}
    one = dialer(msgspec.structs.replace(ONE, **new) if who == "dialer" else ONE)
    two = answerer(msgspec.structs.replace(TWO, **new) if who == "answerer" else TWO)
    shake(one, two)
    assert two.session is not None


def test_a_dialer_that_finds_another_node_leaves():
    one, two = dialer(target=3), answerer()
    challenge = two.received(one.hello)
    refused(PeerReason.WRONG_NODE, lambda: one.received(challenge))


def test_an_answerer_that_is_taken_for_another_node_refuses():
    one, two = dialer(target=2), answerer(msgspec.structs.replace(TWO, node_id=3))
    challenge = msgspec.msgpack.decode(two.received(one.hello))
    proof = one.received(msgspec.msgpack.encode([*challenge[:2], 2, *challenge[3:]]))
    refused(PeerReason.WRONG_SECRET, lambda: two.received(proof))  # the challenge was changed


@pytest.mark.parametrize("node_id", [0, 2])
def test_a_node_without_id_or_with_our_own_is_refused(node_id):
    one, two = dialer(msgspec.structs.replace(ONE, node_id=node_id)), answerer()
    proof = one.received(two.received(one.hello))
    refused(PeerReason.UNKNOWN_NODE, lambda: two.received(proof))


def test_whom_the_broker_does_not_admit_is_refused_after_the_proof():
    def admit(hello):
        raise PeerFault(PeerReason.UNKNOWN_NODE, f"{hello.node_id} was removed")

    one, two = dialer(), answerer(admit=admit)
    proof = one.received(two.received(one.hello))
    fault = refused(PeerReason.UNKNOWN_NODE, lambda: two.received(proof))
    told = refused(PeerReason.UNKNOWN_NODE, lambda: one.received(two.refusal(fault)))
    assert "was removed" in told.message


def test_another_version_is_refused_at_the_first_word():
    hello = msgspec.msgpack.decode(dialer().hello)
    hello[1] = 99
    later = msgspec.msgpack.encode([*hello, "a field of the future"])
    refused(PeerReason.WRONG_VERSION, lambda: answerer().received(later))


def test_nothing_is_believed_out_of_order():
    one, two = dialer(), answerer()
    hello, challenge, proof, accepted = shake(dialer(), answerer())
    refused(PeerReason.MALFORMED_FRAME, lambda: two.received(proof))
    refused(PeerReason.MALFORMED_FRAME, lambda: one.received(accepted))
    two.received(hello)
    refused(PeerReason.MALFORMED_FRAME, lambda: two.received(hello))
    one.received(challenge)
    refused(PeerReason.MALFORMED_FRAME, lambda: one.received(challenge))


@given(st.binary(max_size=200))
def test_rubbish_is_refused_in_words(payload):
    for side in (dialer(), answerer()):
        with pytest.raises(PeerFault):
            side.received(payload)


@given(st.sampled_from([0, 1, 2, 3]), st.data())
def test_a_changed_byte_anywhere_leaves_no_two_sides_that_trust_each_other(turn, data):
    """Whatever byte of the handshake is changed: at most one side believes, and no keys agree."""
    one, two = dialer(), answerer()

    def carried(number, payload):
        if number != turn or payload is None:
            return payload
        place = data.draw(st.integers(0, len(payload) - 1))
        changed = payload[place] ^ data.draw(st.integers(1, 255))
        return payload[:place] + bytes([changed]) + payload[place + 1 :]

    try:
        challenge = two.received(carried(0, one.hello))
        accepted = two.received(carried(2, one.received(carried(1, challenge))))
        one.received(carried(3, accepted))
    except PeerFault:
        pass
    assert one.session is None or two.session is None


def test_words_of_a_refusal_are_safe_to_show_and_bounded():
    fault = PeerFault(PeerReason.UNKNOWN_NODE, "\x1b[2J" + "a" * 500)
    told = refused(PeerReason.UNKNOWN_NODE, lambda: dialer().received(answerer().refusal(fault)))
    assert "\\x1b[2Jaaa" in told.message
    assert len(told.message) < 300
