"""The cookie of the console over TLS: no other host, port or connection in clear text gets it."""

import pytest

from penstock.testing import Broker
from tests.api_kit import ApiClient, Events
from tests.tls.authority import needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def broker(server_files):
    with Broker(tls=server_files._asdict(), users={"ann": "secret"}) as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        yield broker


@pytest.fixture
def page(broker, context):
    context.check_hostname = False  # the address is not in the certificate
    origin = f"https://127.0.0.1:{broker.port}"
    return ApiClient(broker.port, tls=context, origin=origin, x_penstock="1")


def test_cookie_is_bound_to_the_host_and_to_tls(broker, page):
    answer = page.post("session", {"user": "root", "secret": "root-secret"})
    cookie, *flags = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith(f"__Host-penstock-{broker.port}=")
    assert flags == ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
    page.headers["cookie"] = cookie
    assert page.get("session").document["user"] == "root"
    in_clear = ApiClient(broker.port, cookie=cookie)
    assert in_clear.get("session").document["user"] == ""


def test_stream_is_told_over_tls(broker, page):
    page.headers["authorization"] = "Basic cm9vdDpyb290LXNlY3JldA=="
    with Events(page, of="rates") as events:
        assert events.next()[0] == "started"
        broker.clock.advance(1)
        assert events.until("rates")
