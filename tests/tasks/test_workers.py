"""Workers as processes, with a real broker: every kind of task, every kind of end."""

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from penstock.cli.worker import sync_schedules
from penstock.client import connect
from penstock.client.errors import ReplyTimeoutError
from penstock.tasks import App, TaskFailedError, cron, every
from penstock.testing import Broker
from tests.e2e.process import BrokerProcess
from tests.tasks.kit import WAIT_S, Shop, eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def shop(broker, tmp_path, monkeypatch):
    made = Shop(f"127.0.0.1:{broker.port}", tmp_path, monkeypatch)
    yield made
    made.close()


def test_a_job_runs_in_a_worker_and_its_result_comes_back(shop):
    worker = shop.ready_worker("--only", "resize")
    sent = shop.module.resize.delay("cat.png", width=100)
    assert sent.result() == "cat.png is 100 wide"
    assert shop.notes("resized") == [f"cat.png 100 {worker.child.pid}"]
    assert shop.module.resize("cat.png") == "cat.png is 200 wide", "called, it runs here"


def test_an_async_task_gets_arguments_of_the_types_that_it_names(shop):
    shop.ready_worker("--only", "describe")
    image = shop.module.Image("cat", date(2026, 5, 1))

    async def ask():
        sent = await shop.module.describe.delay_async(image)
        return await asyncio.to_thread(sent.result)

    assert asyncio.run(ask()) == {"cat": 2026}
    assert shop.notes("described") == ["cat 2026 1"]


def test_results_of_many_jobs_find_their_callers(shop):
    shop.ready_worker("--only", "resize")
    calls = [{"image": f"{number}.png"} for number in range(50)]
    sent = shop.module.resize.delay_many(calls)
    values = [one.result() for one in reversed(sent)]
    assert values == [f"{number}.png is 200 wide" for number in reversed(range(50))]


def test_a_job_may_come_from_any_program_that_can_publish(shop, broker):
    shop.ready_worker("--only", "resize")
    with connect("127.0.0.1", broker.port) as device:
        device.publish("tasks/shop/resize", b'{"image": "pump.png"}', qos=1)
    assert shop.wait_notes("resized", 1)[0].startswith("pump.png 200 ")


def test_a_task_that_fails_is_retried_and_then_a_dead_letter_with_the_reason(shop):
    worker = shop.ready_worker("--only", "fail")
    sent = shop.module.fail.delay("no such image")
    with pytest.raises(TaskFailedError, match="ValueError: no such image"):
        sent.result()
    assert shop.notes("failed") == ["1 False", "2 False", "3 True"]
    eventually(lambda: shop.letters("fail"))
    assert shop.letters("fail") == [(b'{"text":"no such image"}', b"ValueError: no such image")]
    assert "attempt 3 of 3" in worker.wait_for("now a dead letter")
    worker.wait_for("raise ValueError(text)")


def test_arguments_that_do_not_fit_become_a_dead_letter_that_says_so(shop, broker):
    shop.ready_worker("--only", "fail")
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.produce("tasks/shop/fail", b'{"text": 7}')
    eventually(lambda: shop.letters("fail"))
    ((_, reason),) = shop.letters("fail")
    assert b"Expected `str`, got `int` - at `$.text`" in reason
    assert shop.attempts("fail") == [b"1"]
    assert shop.notes("failed") == []


@pytest.mark.parametrize("task", ["doubt", "doubt_in_a_child"])
def test_a_task_can_make_its_job_a_dead_letter_at_the_first_attempt(shop, task):
    worker = shop.ready_worker("--only", task)
    with pytest.raises(TaskFailedError, match="no such customer: 7"):
        getattr(shop.module, task).delay(7).result()
    eventually(lambda: shop.letters(task))
    assert shop.letters(task) == [(b'{"customer":7}', b"no such customer: 7")]
    assert shop.attempts(task) == [b"1"]
    worker.wait_for("now a dead letter): no such customer: 7")


def test_a_task_that_exits_does_not_end_its_worker(shop):
    worker = shop.ready_worker("--only", "leave", "--only", "resize")
    shop.module.leave.delay()
    eventually(lambda: shop.letters("leave"))
    assert shop.letters("leave") == [(b"{}", b"SystemExit: 7")]
    assert shop.module.resize.delay("still.png").result() == "still.png is 200 wide"
    assert worker.child.poll() is None


def test_the_caller_of_a_coroutine_that_cancels_itself_is_told(shop):
    worker = shop.ready_worker("--only", "give_up")
    with pytest.raises(TaskFailedError, match="CancelledError: by itself"):
        shop.module.give_up.delay().result()
    assert worker.child.poll() is None


def test_a_task_may_choose_when_it_is_tried_again(tmp_path, monkeypatch):
    """By a broker whose clock is real."""
    with BrokerProcess(tmp_path / "data") as broker:
        shop = Shop(f"127.0.0.1:{broker.port}", tmp_path, monkeypatch)
        with closing(shop):
            shop.ready_worker("--only", "later")
            shop.module.later.delay(0.5)
            first, second = (line.split() for line in shop.wait_notes("later", 2))
    assert (first[0], second[0]) == ("1", "2")
    assert float(second[1]) - float(first[1]) >= 0.45


def test_a_function_that_hangs_is_killed_at_its_time_limit(shop):
    shop.ready_worker("--only", "hang")
    with pytest.raises(TaskFailedError, match=r"time limit of 0\.5 s exceeded"):
        shop.module.hang.delay().result()
    attempts = [line.split() for line in shop.notes("hung")]
    assert [number for number, _ in attempts] == ["1", "2"]
    eventually(lambda: all(not _is_running(int(pid)) for _, pid in attempts))


def test_a_coroutine_that_hangs_is_cancelled_at_its_time_limit(shop):
    shop.ready_worker("--only", "hang_async")
    with pytest.raises(TaskFailedError, match=r"time limit of 0\.5 s exceeded"):
        shop.module.hang_async.delay().result()


def test_a_child_that_crashes_fails_its_job_and_not_its_worker(shop):
    worker = shop.ready_worker("--only", "crash", "--only", "where")
    with pytest.raises(TaskFailedError, match="ended by signal 9"):
        shop.module.crash.delay().result()
    first, second = (shop.module.where.delay().result() for _ in range(2))
    assert first == second != worker.child.pid, "a child is used again"
    worker.wait_for("printed by a task")


def test_a_worker_has_no_more_jobs_at_once_than_its_concurrency(shop):
    shop.ready_worker("--only", "meet")
    shop.module.meet.delay_many([{"number": number} for number in range(4)])
    shop.wait_notes("met", 2)
    group = shop.group("meet")
    assert (group.in_flight, group.lag) == (2, 4)
    assert len(shop.notes("met")) == 2
    (shop.folder / "go").touch()
    assert sorted(shop.wait_notes("parted", 4)) == ["0", "1", "2", "3"]


def test_the_job_of_a_worker_that_is_killed_goes_to_another_one(shop):
    first = shop.ready_worker("--only", "meet")
    shop.module.meet.delay(1)
    shop.wait_notes("met", 1)
    second = shop.ready_worker("--only", "meet")
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    pids = [line.split()[1] for line in shop.wait_notes("met", 2)]
    assert pids == [str(first.child.pid), str(second.child.pid)]
    (shop.folder / "go").touch()
    eventually(lambda: shop.group("meet").lag == 0)


def test_children_of_a_worker_that_is_killed_end_with_it(shop):
    worker = shop.ready_worker("--only", "where")
    child = shop.module.where.delay().result()
    worker.stop(signal.SIGKILL)
    eventually(lambda: not _is_running(child))


def test_a_worker_that_is_stopped_finishes_what_it_runs_and_takes_nothing_more(shop):
    worker = shop.ready_worker("--only", "meet")
    shop.module.meet.delay_many([{"number": number} for number in range(3)])
    shop.wait_notes("met", 2)
    worker.child.send_signal(signal.SIGTERM)
    worker.wait_for("stopping")
    (shop.folder / "go").touch()
    assert worker.wait() == 0
    assert sorted(shop.notes("parted")) == ["0", "1"]
    assert shop.group("meet").lag == 1


def test_what_does_not_end_in_time_is_given_back_to_other_workers(shop):
    first = shop.ready_worker("--only", "meet", "--grace", "100ms")
    shop.module.meet.delay(1)
    shop.wait_notes("met", 1)
    assert first.stop() == 3
    (shop.folder / "go").touch()
    shop.ready_worker("--only", "meet")
    assert shop.wait_notes("parted", 1) == ["1"]


def test_a_second_signal_ends_a_worker_at_once(shop):
    worker = shop.ready_worker("--only", "meet", "--grace", "10m")
    shop.module.meet.delay(1)
    shop.wait_notes("met", 1)
    worker.child.send_signal(signal.SIGINT)
    worker.wait_for("stopping")
    assert worker.stop(signal.SIGINT) == 3


def test_the_more_urgent_job_runs_first_and_a_late_one_not_before_its_time(shop):
    order = shop.module.order
    order.delay(1)
    order.options(priority=7).delay(2)
    order.options(priority=7, delay_s=3600).delay(3)
    shop.ready_worker("--only", "order")
    assert shop.wait_notes("order", 2) == ["2", "1"]
    eventually(lambda: shop.group("order").lag == 1)
    assert shop.notes("order") == ["2", "1"]


def test_a_scheduled_task_runs_by_itself(shop, broker):
    shop.ready_worker("--only", "tick")
    for count in (1, 2):
        broker.clock.advance(60)
        assert shop.wait_notes("ticks", count) == ["tasks/shop/tick"] * count


def test_the_schedules_of_the_broker_become_those_of_the_app(shop, broker):
    declare = App("shop", shop.app.nodes).task
    declare(schedule=every(60))(shop.module.tick.function)
    declare(schedule=cron("0 8 * * *"))(shop.module.leave.function)
    sync_schedules(declare.__self__)
    assert _timings(broker) == {"tick": "every 60 s", "leave": "cron 0 8 * * *, UTC"}
    sync_schedules(shop.app, ("tick",))
    assert _timings(broker) == {"tick": "every 60 s", "leave": "cron 0 8 * * *, UTC"}
    sync_schedules(shop.app)
    assert _timings(broker) == {"tick": "every 60 s"}
    changed = App("shop", shop.app.nodes)
    changed.task(schedule=every(30))(shop.module.tick.function)
    sync_schedules(changed)
    assert _timings(broker) == {"tick": "every 30 s"}
    sync_schedules(App("shop", shop.app.nodes))
    assert _timings(broker) == {}


def test_a_result_that_nobody_produces_is_not_waited_for_for_ever(shop):
    with pytest.raises(ReplyTimeoutError, match="does a worker run"):
        shop.module.resize.delay("cat.png").result(timeout_s=0.2)


def _is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def _timings(broker):
    url = f"http://127.0.0.1:{broker.port}/api/v1/schedules"
    with urllib.request.urlopen(url, timeout=60) as answer:
        rows = json.load(answer)["items"]
    return {row["topic"].rpartition("/")[2]: row["timing_text"] for row in rows}


FORK = """
import os, socket, sys, threading
from penstock.client import Credentials
from penstock.tasks import App

app = App("shop", ["127.0.0.1:%d" % int(sys.argv[1])])

@app.task(results=True)
def resize(image: str) -> None:
    pass

sent = resize.delay("before.png")
app.close()
with socket.create_server(("127.0.0.1", 0)) as silent:
    app.nodes, nodes = ["127.0.0.1:%d" % silent.getsockname()[1]], app.nodes
    app.credentials = Credentials("ann", "secret")
    threading.Thread(target=lambda: app.client, daemon=True).start()
    silent.accept()  # the thread connects, and waits for an answer that does not come
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
app.nodes, app.credentials = nodes, None
resize.delay("after.png")
try:
    sent.result()
except Exception as error:
    print(error)
app.close()
"""


def test_a_child_that_is_forked_while_a_thread_connects_sends_all_the_same(shop, broker):
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(broker.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "was sent before this process was forked" in done.stdout
    jobs = shop.app.client.messages("tasks/shop/resize")
    assert [job.payload for job in jobs] == [b'{"image":"before.png"}', b'{"image":"after.png"}']
