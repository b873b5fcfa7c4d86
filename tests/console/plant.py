"""A broker with plenty in it: a plant at work, as it is for the pictures of the console.

Everything is made by real clients: gateways that publish all the time, pumps and panels with
sessions, some of them away, workers that fail now and then, streams and sinks, users and keys,
schedules, and a bridge to an older broker.
"""

import contextlib
import itertools
import json
import math
import socket
import threading
from collections import Counter

from penstock.client import Subscriber, connect
from penstock.client.errors import ClientError
from penstock.wire.queue._generated.queue_pb2 import StagedBlock
from tests.api_kit import ApiClient
from tests.console.seed import device
from tests.e2e.cluster_processes import until
from tests.e2e.process import BrokerProcess

__all__ = ["ADMIN", "plant", "ripe"]

PUMPS, AWAY = 24, 4
TICK_S = 0.05
TIMEOUT_S = 30
KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"  # of RFC 8032
ADMIN = "anna", "correct horse battery"
ALARMS = ("north", "south", "boiler", "gate-2", "roof")
REASONS = ("smtp 550: mailbox unavailable", "smtp 550: mailbox unavailable", "timeout after 30 s")
QUEUE_MAX = 400
CONFIG = """
[limits]
queue_messages_max = {queue}

[[bridges]]
name = 'old-plant'
url = 'mqtt://127.0.0.1:{old}'
topics_in = ['legacy/#']
topics_out = ['plant/+/cmd']

[[bridges]]
name = 'site-b'
url = 'mqtt://127.0.0.1:1'
topics_in = ['site-b/#']
"""


@contextlib.contextmanager
def plant(directory):
    """The broker, while the plant is at work."""
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        old = stack.enter_context(BrokerProcess(directory / "old"))
        config = directory / "plant.toml"
        config.write_text(CONFIG.format(queue=QUEUE_MAX, old=old.port))
        broker = stack.enter_context(
            BrokerProcess(directory / "data", "--config", str(config), log_name="plant.log")
        )
        _fill(broker.port, stack)
        for work in (_gateways, _workers, _legacy):
            stack.enter_context(_background(work, old.port if work is _legacy else broker.port))
        yield broker


def _fill(port, stack):
    _sessions(port, stack)
    _retained(port)
    _jobs(port)
    _streams(port)
    _people(ApiClient(port))
    _schedules(ApiClient(port, *ADMIN))


@contextlib.contextmanager
def _background(work, port):
    """Work in a thread, again and again; it gives the numbers of its rounds."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(port, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _reading(number, at):
    return {
        "temp": {"c": round(64 + number + 4 * math.sin(at / 90 + number), 2), "rpm": 1480 + at % 9},
        "vib": round(0.01 + 0.004 * math.sin(at / 13 + number), 4),
        "flow": {"l_min": round(120 + 15 * math.sin(at / 60), 1), "state": "run"},
    }


# ── what goes on all the time ─────────────────────────────────────────────────────────────────


def _gateways(port, ended):
    """Readings of all pumps: QoS 0, and QoS 1 for the temperatures."""
    with device(port, "gateway-north") as gateway:
        for at in itertools.count():
            if ended.wait(TICK_S):
                return
            number = at % PUMPS + 1
            for name, value in _reading(number, at).items():
                topic = f"plant/p{number}/{name}"
                gateway.client.publish(topic, json.dumps(value), int(name == "temp"))
            if at % 7 == 0:
                gateway.client.publish("plant/p7/temp", json.dumps(_reading(7, at)["temp"]), 1)


def _workers(port, ended):
    """Jobs of two queues; a worker of one of them is slow."""
    with connect([f"127.0.0.1:{port}"]) as client:
        for at in itertools.count():
            if ended.wait(4 * TICK_S):
                return
            with contextlib.suppress(ClientError):
                client.produce("images/resize", b'{"file": "scan-%05d.png"}' % at)
                client.produce("mail/out", b'{"to": "user%d@example.test"}' % at, priority=at % 3)
                client.ack(client.poll("images/resize", "resize", max=2))
                if at % 3 == 0:
                    client.ack(client.poll("mail/out", "send", max=2))


def _legacy(port, ended):
    with device(port, "meter-4") as meter:
        for at in itertools.count():
            if ended.wait(20 * TICK_S):
                return
            meter.client.publish("legacy/meter/4", b"%d" % (7_000 + at), 1)


# ── what is there from the beginning ──────────────────────────────────────────────────────────


def _sessions(port, stack):
    for number in range(1, PUMPS + 1):
        pump = stack.enter_context(device(port, f"pump-{number:02}", clean=False))
        pump.subscribe(f"plant/p{number}/cmd")
        pump.subscribe("plant/all/cmd")
        if number > PUMPS - AWAY:
            pump.close()
    for name in ("panel-hall", "panel-office"):
        stack.enter_context(device(port, name)).subscribe("plant/+/temp", 0)
    stack.enter_context(device(port, "historian", clean=False)).subscribe("plant/#")
    with device(port, "commands") as commands:
        for at in range(QUEUE_MAX + 41):
            commands.publish("plant/p24/cmd", json.dumps({"set": at % 80}))
        commands.publish("plant/all/cmd", json.dumps({"check": True}))
    _shared_id(port)
    stack.enter_context(_silent(port))


def _shared_id(port):
    """Two devices with one client id throw each other out."""
    first = connect("127.0.0.1", port, "scale-2", keep_alive=0)
    for _ in range(6):
        second = connect("127.0.0.1", port, "scale-2", keep_alive=0)
        first.abandon()
        first = second
    first.abandon()


@contextlib.contextmanager
def _silent(port):
    """A client that promises a packet each second, and sends none."""
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"\x10\x13\x00\x04MQTT\x04\x02\x00\x01\x00\x07valve-9")
        assert raw.recv(4) == b"\x20\x02\x00\x00"
        yield


def _retained(port):
    with device(port, "alarms") as alarms:
        for name in ALARMS:
            alarms.publish(f"alarm/{name}", json.dumps({"state": "off"}), retain=True)
        for number in range(1, PUMPS + 1):
            info = {"maker": "Alba", "serial": 48_000 + number, "firmware": "2.4.1"}
            alarms.publish(f"plant/p{number}/info", json.dumps(info), retain=True)


def _jobs(port):
    """A queue with dead letters for two reasons, jobs in flight and a backlog; others are well."""
    with connect([f"127.0.0.1:{port}"]) as client:
        client.create_group("mail/out", "send")
        client.configure_group("mail/out", "send", max_deliveries=1)
        jobs = [b'{"to": "user%d@example.test", "template": "bill"}' % at for at in range(600)]
        client.produce_many("mail/out", jobs)
        for reason in REASONS * 4:
            client.nack(client.poll("mail/out", "send", max=1, wait_s=30), reason=reason)
        client.poll("mail/out", "send", max=3, wait_s=30, visibility_s=3600)
        client.create_group("images/resize", "resize")
        client.create_group("images/resize", "thumbnails")
        client.create_topic("invoices", keep=True)
        client.create_group("invoices", "ledger")
        client.produce("invoices", b'{"number": 4711}', delay_s=7_200)


def _streams(port):
    rows = [b'{"shop": %d, "cents": %d}' % (at % 7, at * 13) for at in range(2_000)]
    with connect([f"127.0.0.1:{port}"]) as client:
        client.produce_many("sales", rows)
        client.create_groups("sales-by-hour", {"sales": 0}, reader=True)
        client.commit("sales", "sales-by-hour", 1_640)
        client.create_groups("fraud", {"sales": 0}, reader=True)
        client.commit("sales", "fraud", 2_000)
        for epoch in range(3):
            block = StagedBlock(lots=[{"topic": "scores", "payloads": [b"{}"] * 40}])
            client.stage("scores-of-shops", epoch, "p0", 0, block.SerializeToString())
            client.commit_stage("scores-of-shops", epoch, [("p0", 1)], b"by the hourly job")
        client.stage("daily-report", 0, "p0", 0, block.SerializeToString())
    with Subscriber("billing", "sales", port=port) as subscriber:
        for _ in itertools.islice(subscriber.messages(idle_s=5), 1_200):
            pass


def _people(api):
    rules = ["allow publish plant/#", "deny publish plant/all/cmd", "allow subscribe plant/#"]
    for path, name, more in [
        ("roles", "sensors", {"rules": rules, "note": "devices of hall 1"}),
        ("roles", "analysts", {"rules": ["allow read #", "allow monitor"]}),
        ("users", ADMIN[0], {"roles": ["admin"], "password": ADMIN[1]}),
        ("users", "gateway-north", {"roles": ["sensors"], "generate_secret": True}),
        ("users", "oskar", {"roles": ["analysts"], "generate_secret": True}),
        ("users", "hall-2", {"roles": ["sensors"], "generate_secret": True, "disabled": True}),
    ]:
        body = {"name": name, **more}
        answer = api.ask("PUT", path, body) if path == "roles" else api.post(path, body)
        assert answer.status == 200, answer
        if name == ADMIN[0]:
            api = ApiClient(api.port, *ADMIN)
    made = [
        api.post("tokens", {"owner": "oskar", "note": "notebook"}),
        api.ask("PUT", "bans", {"name": "client:scale-9", "note": "floods"}),
        api.post("keys", {"device": "pump-07", "topics": "plant/p7/#", "public_key": KEY}),
    ]
    assert Counter(answer.status for answer in made) == {200: 3}, made
    for _ in range(3):
        with contextlib.suppress(Exception):
            connect("127.0.0.1", api.port, "hall-2", username="hall-2", password=b"wrong")


def _schedules(api):
    for name, topic, more in [
        ("daily-report", "mail/report", {"cron": "0 8 * * mon-fri", "timezone": "Europe/Paris"}),
        ("heartbeat", "plant/all/ping", {"every_s": 5}),
        ("maintenance", "plant/all/cmd", {"in_s": 86_400}),
    ]:
        answer = api.post("schedules", {"name": name, "topic": topic, "text": "{}", **more})
        assert answer.status == 200, answer
    until(lambda: api.get("schedules", name="heartbeat").document["items"][0]["published"])


def ripe(port, seconds):
    """Wait until the plant has worked for a while, so that curves have a shape."""
    api = ApiClient(port, *ADMIN)
    until(lambda: api.get("overview").document["uptime_s"] > seconds, seconds + TIMEOUT_S)
