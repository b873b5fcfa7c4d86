"""Options to log in with: names of files only, checked before anything runs."""

import pickle

import pytest

from penstock.client import LoginFailedError
from penstock.errors import ConfigError
from penstock.spark.login import NO_LOGIN, BrokerLogin, login_of
from penstock.spark.options import source_options
from penstock.spark.sink_options import read_options

LEAST = {"servers": "127.0.0.1:1883", "subscribe": "pump/#"}
SECRET = "canary-4f1c9e7a2b"


def login(**given: str) -> BrokerLogin:
    read = source_options({**LEAST, **given}).login
    assert read_options({"servers": "h:1", **given}, is_stream=True).login == read
    return read


def test_without_options_there_is_neither_login_nor_tls():
    assert login() == NO_LOGIN
    assert NO_LOGIN.keywords() == {"tls": None, "credentials": None}


def test_a_user_has_a_file_with_its_password(tmp_path):
    file = tmp_path / "password"
    file.write_text(SECRET)
    file.chmod(0o600)
    read = login(user="etl", passwordFile=str(file))
    credentials = read.keywords()["credentials"]
    assert (credentials.user, credentials.secret()) == ("etl", SECRET.encode())
    assert SECRET.encode() not in pickle.dumps(read)
    assert SECRET not in repr(read) + repr(credentials)


def test_the_file_is_read_where_the_connection_is_made(tmp_path):
    read = login(tokenFile=str(tmp_path / "token"))  # it need not exist at the driver
    with pytest.raises(LoginFailedError, match="token"):
        read.keywords()["credentials"].secret()


def test_a_file_of_tls_implies_tls():
    assert login(tls="true").keywords()["tls"].ca_file is None
    assert login(tlsCaFile="/ca.crt").keywords()["tls"].ca_file == "/ca.crt"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user": "etl"}, "passwordFile"),
        ({"passwordFile": "/p"}, "user"),
        ({"user": "etl", "passwordFile": "/p", "tokenFile": "/t"}, "contradicts"),
        ({"tls": "false", "tlsCaFile": "/ca"}, "contradicts tls=false"),
        ({"tls": "yes"}, "true or false"),
        ({"tlsCertFile": "/c"}, "tlsKeyFile"),
        ({"password": SECRET}, "use passwordFile"),
        ({"token": SECRET}, "use tokenFile"),
    ],
)
def test_what_contradicts_or_would_show_a_secret_is_refused(given, said):
    with pytest.raises(ConfigError, match=said) as caught:
        login(**given)
    assert SECRET not in str(caught.value)


def test_the_environment_of_the_driver_counts_where_no_option_does():
    environ = {"PENSTOCK_USER": "etl", "PENSTOCK_PASSWORD_FILE": "/p", "PENSTOCK_CA_FILE": "/ca"}
    assert login_of({}, environ) == BrokerLogin("etl", "/p", tls=True, ca_file="/ca")
    assert login_of({"tokenfile": "/t", "tls": "false"}, environ) == BrokerLogin(token_file="/t")
    assert login_of({}, {"PENSTOCK_TOKEN_FILE": "/t"}) == BrokerLogin(token_file="/t")
