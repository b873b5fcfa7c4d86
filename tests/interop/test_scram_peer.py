"""SCRAM-SHA-256 with another implementation at the other end, in both roles."""

import base64

import pytest
import scramp

from penstock.errors import Refused
from penstock.trust.scram import ScramClient, ScramServer, read_client_first
from penstock.trust.scram_verifier import new_verifier

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = b"rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = new_verifier("pencil", SALT, 4_096)
PASSWORDS = ["pencil", "pässwörd für ann", "I\u00adX", "\u2168", "p\u00a0w", "ﬁne, so=far", "א1א"]
MECHANISM = scramp.ScramMechanism("SCRAM-SHA-256")


@pytest.mark.parametrize("password", PASSWORDS)
def test_scramp_logs_in_here(password):
    peer = scramp.ScramClient(["SCRAM-SHA-256"], "ann", password)
    verifier = new_verifier(password, SALT, 4_096)
    first = peer.get_client_first().encode()
    one = ScramServer(read_client_first(first), verifier, SERVER_NONCE)
    peer.set_server_first(one.first.decode())
    answer = one.finish(peer.get_client_final().encode())
    assert answer is not None
    peer.set_server_final(answer.decode())


def test_scramp_with_a_wrong_password_does_not():
    peer = scramp.ScramClient(["SCRAM-SHA-256"], "ann", "pencils")
    first = peer.get_client_first().encode()
    one = ScramServer(read_client_first(first), PENCIL, SERVER_NONCE)
    peer.set_server_first(one.first.decode())
    assert one.finish(peer.get_client_final().encode()) is None


@pytest.mark.parametrize("password", PASSWORDS)
def test_we_log_in_at_scramp(password):
    stored = MECHANISM.make_auth_info(password, iteration_count=4_096)
    peer = MECHANISM.make_server(lambda _name: stored)
    one = ScramClient("ann", password, CLIENT_NONCE)
    peer.set_client_first(one.first.decode())
    peer.set_client_final(one.final(peer.get_server_first().encode()).decode())
    one.check(peer.get_server_final().encode())


def test_we_see_that_scramp_refused_us():
    stored = MECHANISM.make_auth_info("pencil", iteration_count=4_096)
    peer = MECHANISM.make_server(lambda _name: stored)
    one = ScramClient("ann", "pencils", CLIENT_NONCE)
    peer.set_client_first(one.first.decode())
    final = one.final(peer.get_server_first().encode()).decode()
    with pytest.raises(scramp.ScramException):
        peer.set_client_final(final)
    with pytest.raises(Refused):
        one.check(peer.get_server_final().encode())
