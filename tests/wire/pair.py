"""A client machine and a server machine, connected to each other."""

from collections.abc import Callable, Iterable

from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine, encode
from tests.wire.vectors import feed

Cut = Callable[[bytes], Iterable[bytes]]


def whole(data: bytes) -> list[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


class Pair:
    """What one end sends, the other receives, cut as ``cut`` says; events come back plain."""

    def __init__(self, cut: Cut = whole) -> None:
        self.client = MqttClientMachine()
        self.server = MqttServerMachine()
        self._cut = cut

    def client_sends(self, data: bytes) -> list[list]:
        return feed(self.server, self._cut(data))

    def server_sends(self, data: bytes) -> list[list]:
        return feed(self.client, self._cut(data))

    def connect(self) -> None:
        assert self.client_sends(encode.connect(b"pair"))[0][0] == "connect"
        assert self.server_sends(encode.connack(False, 0)) == [["connack", False, 0]]
