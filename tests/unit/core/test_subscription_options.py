"""Options of subscriptions: their integers, and what several of one subscriber say together."""

import pytest

from penstock.core.routes import Routes
from penstock.core.subscription_options import (
    Marks,
    brings_retained,
    code_of,
    id_of,
    is_marked,
    is_refusal,
    qos_of,
    routed,
)

NO_LOCAL, AS_PUBLISHED, IF_NEW, NEVER = 4, 8, 16, 32


def options(qos, flags=0, number=0):
    return qos | flags | number << 8


@pytest.fixture
def routes():
    return Routes()


def test_the_qos_of_a_former_version_is_a_subscription_without_marks():
    assert [is_marked(qos) for qos in range(3)] == [False] * 3
    assert [qos_of(qos) for qos in range(3)] == [0, 1, 2]


def test_identifier_and_options_come_out_as_they_went_in():
    one = options(2, NO_LOCAL | NEVER, 268_435_455)
    assert (qos_of(one), id_of(one), code_of(one), is_refusal(one)) == (2, 268_435_455, 2, False)


@pytest.mark.parametrize("code", [0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2])
def test_a_refusal_keeps_its_code(code):
    assert is_refusal(code)
    assert code_of(code) == code
    assert is_refusal(code | 7 << 8)


@pytest.mark.parametrize(
    ("flags", "is_new", "brings"),
    [
        (0, True, True),
        (0, False, True),
        (IF_NEW, True, True),
        (IF_NEW, False, False),
        (NEVER, True, False),
        (NEVER, False, False),
    ],
)
def test_retain_handling_decides_whether_retained_messages_come(flags, is_new, brings):
    assert brings_retained(options(1, flags), is_new=is_new) is brings


def test_retain_handling_alone_is_no_mark_and_changes_no_route(routes):
    routes.subscribe(b"a", "us", options(1, IF_NEW))
    route = routes.resolve(b"a")
    assert routes.subscribe(b"a", "us", options(1, NEVER)) is False
    assert routes.cached[b"a"] is route
    assert (route.targets, route.marked) == ((("us", 1),), None)
    assert routed(options(1, NEVER)) == 1


def test_one_copy_has_the_highest_qos_and_all_identifiers(routes):
    """[MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-4]"""
    for topic_filter, one in [
        (b"a/b", options(0, 0, 9)),
        (b"a/+", options(2, 0, 3)),
        (b"a/#", options(1, AS_PUBLISHED, 9)),
        (b"#", options(1)),
    ]:
        routes.subscribe(topic_filter, "us", one)
    route = routes.resolve(b"a/b")
    assert route.targets == (("us", 2),)
    assert route.marked == {"us": Marks(2, (3, 9, 9), is_retain_as_published=True)}
    assert routes.resolve(b"x").marked is None


def test_no_local_leaves_what_the_other_subscriptions_say(routes):
    routes.subscribe(b"a/b", "us", options(2, NO_LOCAL | AS_PUBLISHED, 5))
    routes.subscribe(b"a/+", "us", options(1, 0, 6))
    routes.subscribe(b"a/#", "we", options(1, NO_LOCAL))
    marked = routes.resolve(b"a/b").marked
    assert (marked["us"].qos, marked["us"].ids) == (2, (5, 6))
    assert marked["us"].for_own() == Marks(1, (6,), is_retain_as_published=False)
    assert marked["we"].for_own() is None


def test_marks_end_with_their_subscriptions(routes):
    routes.subscribe(b"a", "us", options(1, 0, 5))
    routes.subscribe(b"#", "us", options(1))
    routes.subscribe(b"a", "we", options(0))
    assert routes.resolve(b"a").marked == {"us": Marks(1, (5,), is_retain_as_published=False)}
    routes.subscribe(b"a", "us", options(1, 0, 6))
    assert routes.resolve(b"a").marked["us"].ids == (6,)
    routes.subscribe(b"a", "us", options(1))
    route = routes.resolve(b"a")
    assert (dict(route.targets), route.marked) == ({"us": 1, "we": 0}, None)
    routes.subscribe(b"a", "us", options(1, NO_LOCAL))
    routes.unsubscribe(b"a", "us")
    assert routes.resolve(b"a").marked is None


def test_a_subscriber_without_rights_has_no_marks(routes):
    routes.subscribe(b"a", "us", options(1, 0, 5))
    routes.may_receive = lambda subscriber, _topic: subscriber != "us"
    route = routes.resolve(b"a")
    assert (route.targets, route.marked) == ((), None)
