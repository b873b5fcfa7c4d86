"""The doors, each with a real client: how it logs in, and what it tries for each action.

``attempt`` answers ``ALLOWED``, ``DENIED`` (logged in, but not this) or ``REFUSED`` (not let in).
"""

import base64
import contextlib
import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from redis.retry import Retry

from penstock.client import (
    ClientError,
    ConnectionLostError,
    Credentials,
    LoginFailedError,
    NotAuthorizedError,
    Publisher,
    RefusedError,
    Subscriber,
    TlsOptions,
    UnauthenticatedError,
    UnreachableError,
    Worker,
    connect,
)

ALLOWED, DENIED, REFUSED = "allowed", "denied", "refused"

Client = TypeVar("Client")


class Login(NamedTuple):
    """Who a client claims to be. ``tls`` may have its certificate."""

    user: str = ""
    secret: str = ""
    tls: TlsOptions | None = None

    @property
    def credentials(self) -> Credentials | None:
        if not self.secret:
            return None
        if self.secret.startswith("pst_"):
            return Credentials(token=self.secret)
        return Credentials(self.user, self.secret)


class Door:
    """A protocol and a client of it. ``tries`` has an attempt for each action it knows."""

    name: str

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @property
    def tries(self) -> dict[str, Callable[[Login, str], None]]:
        raise NotImplementedError

    def enter(self, login: Login) -> None:
        """Log in, and do something that everybody may."""
        raise NotImplementedError

    def outcome(self, attempt: Callable[[], None]) -> str:
        try:
            attempt()
        except (LoginFailedError, UnauthenticatedError, AuthenticationError, UnreachableError):
            return REFUSED
        except (NotAuthorizedError, NoPermissionError, Denied):
            return DENIED
        return ALLOWED

    def let_in(self, login: Login) -> bool:
        return self.outcome(lambda: self.enter(login)) == ALLOWED

    def attempt(self, login: Login, action: str, topic: str) -> str:
        return self.outcome(lambda: self.tries[action](login, topic))


class Denied(Exception):  # noqa: N818 - a verdict, not an error
    """The door said no in a way that its client has no class for."""


class MqttDoor(Door):
    """MQTT 3.1.1: a denied publish ends the connection, a denied filter gets 0x80."""

    name = "mqtt"

    @property
    def tries(self):
        return {
            "publish": self._publish,
            "subscribe": self._subscribe,
            "work": lambda login, topic: self._subscribe(login, f"$share/g/{topic}"),
            "monitor": lambda login, _topic: self._subscribe(login, "$SYS/broker/uptime"),
        }

    def _connect(self, login: Login):
        return connect(self.host, self.port, credentials=login.credentials, tls=login.tls)

    def enter(self, login: Login) -> None:
        with self._connect(login):
            pass

    def _publish(self, login: Login, topic: str) -> None:
        with self._connect(login) as client:
            try:
                client.publish(topic, b"x", qos=1)
            except (ConnectionLostError, RefusedError):
                raise Denied from None

    def _subscribe(self, login: Login, topic_filter: str) -> None:
        with self._connect(login) as client:
            try:
                granted = client.subscribe([(topic_filter, 1)])
            except RefusedError:
                raise Denied from None
            if granted[0] >= 0x80:
                raise Denied


class RespDoor(Door):
    """Redis: NOPERM."""

    name = "resp"

    @property
    def tries(self):
        return {
            "publish": lambda login, topic: self._run(login, "PUBLISH", topic, "x"),
            "subscribe": self._subscribe,
            "read": lambda login, topic: self._run(login, "XRANGE", topic, "-", "+"),
            "work": self._work,
            "manage": lambda login, topic: self._run(login, "XTRIM", topic, "MAXLEN", "100000"),
            "monitor": lambda login, _topic: self._run(login, "CLIENT", "LIST"),
            "admin": lambda login, _topic: self._run(login, "ACL", "LIST"),
        }

    @contextmanager
    def _connected(self, login: Login) -> Iterator[redis.Redis]:
        options = {}
        if login.secret:
            user = "" if login.secret.startswith("pst_") else login.user
            options = {"username": user or "token", "password": login.secret}
        if login.tls is not None:
            options |= {
                "ssl": True,
                "ssl_ca_certs": login.tls.ca_file,
                "ssl_certfile": login.tls.cert_file,
                "ssl_keyfile": login.tls.key_file,
            }
        options["retry"] = Retry(NoBackoff(), 0)  # by itself it tries a wrong password ten times
        client = redis.Redis(self.host, self.port, single_connection_client=True, **options)
        try:
            yield client
        finally:
            client.close()

    def enter(self, login: Login) -> None:
        self._run(login, "PING")

    def _run(self, login: Login, *command: str) -> None:
        with self._connected(login) as client:
            client.execute_command(*command)

    def _work(self, login: Login, topic: str) -> None:
        with self._connected(login) as client:
            try:
                client.execute_command("XREADGROUP", "GROUP", "g", "c", "STREAMS", topic, ">")
            except NoPermissionError:
                raise
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise

    def _subscribe(self, login: Login, topic: str) -> None:
        with self._connected(login) as client:
            subscriber = client.pubsub()
            subscriber.subscribe(topic)
            subscriber.get_message(timeout=10)
            subscriber.close()


class BinaryDoor(Door):
    """The binary protocol: an ERROR for each request."""

    name = "binary"

    @property
    def tries(self):
        return {
            "publish": self._publish,
            "subscribe": lambda login, topic: self._open(Subscriber, login, login.user, topic),
            "work": lambda login, topic: self._open(Worker, login, topic, login.user),
        }

    def _options(self, login: Login) -> dict:
        return {
            "host": self.host,
            "port": self.port,
            "credentials": login.credentials,
            "tls": login.tls,
        }

    def enter(self, login: Login) -> None:
        self._publish(login, "entered")  # the login is the first frame, and has no other answer

    def _publish(self, login: Login, topic: str) -> None:
        with Publisher(**self._options(login)) as publisher:
            _denied_if_refused(lambda: publisher.publish(topic, b"x"))

    def _open(self, kind: type[Subscriber], login: Login, *names: str) -> None:
        def subscribe() -> None:
            with kind(*names, **self._options(login)) as client:
                assert client.receive(timeout_s=20) is not None

        _denied_if_refused(subscribe)


class QueueDoor(Door):
    """The queue protocol: a code for each request."""

    name = "queue"

    @property
    def tries(self):
        return {
            "publish": lambda login, topic: self._call(login, "produce", topic, b"x"),
            "read": lambda login, topic: self._call(login, "fetch", topic, 0),
            "work": lambda login, topic: self._call(login, "poll", topic, "g"),
            "manage": lambda login, topic: self._call(login, "set_rate_limit", topic, 1e6, 1000),
        }

    def enter(self, login: Login) -> None:
        self._call(login, "topics", "none")

    def _call(self, login: Login, operation: str, *arguments: object) -> None:
        node = f"{self.host}:{self.port}"
        with connect([node], credentials=login.credentials, tls=login.tls) as client:
            result = getattr(client, operation)(*arguments)
            if isinstance(result, Iterator):
                next(result, None)


class HttpDoor(Door):
    """HTTP: 401 and 403."""

    name = "http"

    @property
    def tries(self):
        return {
            "publish": lambda login, topic: self._ask(login, "POST", f"/topics/{topic}", b"x"),
            "read": lambda login, topic: self._ask(login, "GET", f"/topics/{topic}?offset=0"),
            "manage": lambda login, topic: self._ask(
                login, "PUT", f"/queues/{topic}", b'{"max_messages": 1000000}'
            ),
            "monitor": lambda login, _topic: self._ask(login, "GET", "/clients"),
            "admin": lambda login, _topic: self._ask(login, "GET", "/users"),
        }

    def enter(self, login: Login) -> None:
        with contextlib.suppress(Denied):
            self._ask(login, "GET", "/clients")

    def _ask(self, login: Login, method: str, path: str, body: bytes | None = None) -> None:
        connection = self._connection(login)
        headers = {}
        if login.secret.startswith("pst_"):
            headers["authorization"] = f"Bearer {login.secret}"
        elif login.secret:
            pair = base64.b64encode(f"{login.user}:{login.secret}".encode()).decode()
            headers["authorization"] = f"Basic {pair}"
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
        except (ssl.SSLError, ConnectionError) as error:
            raise UnreachableError(str(error)) from None
        finally:
            connection.close()
        if response.status in (401, 429):
            raise LoginFailedError(text)
        if response.status == 403:
            raise Denied(text)
        assert response.status < 300, (response.status, text)

    def _connection(self, login: Login) -> http.client.HTTPConnection:
        if login.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=20)
        context = ssl.create_default_context(cafile=login.tls.ca_file)
        if login.tls.cert_file is not None:
            context.load_cert_chain(login.tls.cert_file, login.tls.key_file)
        return http.client.HTTPSConnection(self.host, self.port, timeout=20, context=context)


def _denied_if_refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except (LoginFailedError, UnreachableError):
        raise
    except (RefusedError, ClientError):
        raise Denied from None


DOORS = (MqttDoor, RespDoor, BinaryDoor, QueueDoor, HttpDoor)
