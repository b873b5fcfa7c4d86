"""What every client of the queue protocol must do, whatever happens around it."""

import base64
import contextlib

import pytest

from tests.clients.driver_process import encoded
from tests.clients.drivers import started
from tests.clients.proxy import LossyProxy, faults


@pytest.fixture
def drive(queue_kind, outlived):
    """Start a driver of this client."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(started(queue_kind))


def begin_produce(driver, payload, topic="jobs"):
    return driver.begin("produce", topic=topic, payload_b64=encoded(payload))


def next_job(driver):
    job = driver.event("job")
    return job, base64.b64decode(job["payload_b64"])


def test_a_job_that_is_given_back_comes_again_and_one_that_is_done_does_not(drive, broker):
    driver = drive()
    driver.connect(broker.port)
    driver.end(begin_produce(driver, b"a"))
    driver.do("consume", topic="jobs", group="g")
    first, payload = next_job(driver)
    driver.do("nack", lease=first["lease"], reason="not now")
    again, repeated = next_job(driver)
    driver.do("ack", lease=again["lease"])
    driver.end(begin_produce(driver, b"b"))
    assert (payload, repeated, again["redeliveries"]) == (b"a", b"a", 1)
    assert next_job(driver)[1] == b"b"


def test_a_dying_worker_leaves_its_jobs_to_another(drive, broker):
    dying, living = drive(), drive()
    for driver in (dying, living):
        driver.connect(broker.port)
    living.end(begin_produce(living, b"a"))
    dying.do("consume", topic="jobs", group="g")
    next_job(dying)
    living.do("consume", topic="jobs", group="g")
    dying.kill()
    assert next_job(living)[1] == b"a"


@pytest.mark.parametrize("seed", range(3))
def test_over_a_lossy_network_everything_is_stored_once_in_the_order_of_the_calls(
    drive, broker, seed
):
    driver = drive()
    planned = faults(seed, 12, ["cut", "reset", "crumbs", "slow"])
    with LossyProxy(broker.port, planned) as proxy:
        driver.connect(proxy.port)
        count = 0
        while proxy.left:
            asked = [begin_produce(driver, b"%d" % n) for n in range(count, count + 20)]
            offsets = [driver.end(number)["offset"] for number in asked]
            assert offsets == [str(number) for number in range(count, count + 20)]
            count += 20
        driver.do("close")
