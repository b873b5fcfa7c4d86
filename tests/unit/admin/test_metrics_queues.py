"""Queues and groups in the metrics: sums of all, series of the few that are furthest behind."""

import asyncio
from itertools import groupby

import pytest
from asking import Api
from prometheus_client.parser import text_string_to_metric_families

from penstock.admin import survey as module
from penstock.admin.metrics import render, render_off_loop
from penstock.admin.metrics_hermesmq import HERMESMQ
from penstock.admin.survey import Survey
from penstock.core.commands import GroupMade, Returned, Taken, TopicConfigured


@pytest.fixture
def book(view):
    return view.queues


def parsed(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def make_group(book, topic, name, end, done=0):
    book.store.have(topic, end)
    book.apply(GroupMade(topic, name, done))


def take(book, topic, name, count):
    book.apply(Taken(topic, name, [(b"worker", count)], 0, 99, 0, settle=False))


def test_topics_groups_and_their_messages_are_added_up(view, book):
    book.topics.configure(TopicConfigured(b"idle"), 1, recovering=False)
    for topic in (b"a", b"b"):
        for name in (b"g", b"h"):
            make_group(book, topic, name, end=20)
        take(book, topic, b"g", 5)
    book.apply(Returned(b"b", b"g", b"worker"))
    take(book, b"b", b"g", 2)
    shown = parsed(render(view))
    assert shown["penstock_queue_topics",] == 3
    assert shown["penstock_queue_messages",] == 40
    assert shown["penstock_groups",] == 4
    assert shown["penstock_group_pending",] == 10
    assert shown["penstock_groups_in_flight",] == 7
    assert shown["penstock_groups_lag",] == 80
    assert b'\npenstock_group_lag{group="h",topic="a"} 20.0\n' in render(view)
    assert shown["penstock_group_redeliveries_total",] == 2


def test_the_lag_of_a_reader_is_that_of_all_its_topics(view, book):
    make_group(book, b"a", b"work", end=20)
    for topic, done in ((b"a", 5), (b"b", 19)):
        book.store.have(topic, 20)
        book.apply(GroupMade(topic, b"spark", done, reader=True))
    shown = parsed(render(view))
    assert shown["penstock_reader_lag", "spark"] == 16
    assert shown["penstock_group_lag", "spark", "a"] == 15
    assert ("penstock_reader_lag", "work") not in shown


def test_what_consumers_gave_back_and_what_was_limited_is_counted(view):
    view.counters.returned_total = 3
    view.counters.dead_letters_total = 4
    view.counters.rate_limited_total = 5
    shown = parsed(render(view))
    assert shown["penstock_returned_total",] == 3
    assert shown["penstock_dead_letters_total",] == 4
    assert shown["penstock_rate_limited_total",] == 5


def test_topics_of_dead_letters_are_not_among_those_that_are_worked_on(view, book):
    book.topics.configure(TopicConfigured(b"$dlq/a/g"), 1, recovering=False)
    make_group(book, b"$dlq/a/g", b"redrive", end=9)
    shown = parsed(render(view))
    assert shown["penstock_queue_topics",] == shown["penstock_groups_lag",] == 0


def test_the_groups_furthest_behind_have_series_of_their_own(view, book, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 3)
    for number in range(10):
        make_group(book, b"t%d" % number, b"g", end=100, done=number * 7 % 10)
    survey = Survey(book, series_max=3)
    assert [len(survey._lags) for _ in survey.slices()] == [1, 3, 3, 3, 3, 3]
    assert survey.largest_lags == {("t0", "g"): 100, ("t3", "g"): 99, ("t6", "g"): 98}
    assert survey.lag == sum(range(91, 101))


@pytest.mark.parametrize("series", [0, 2, 100])
def test_the_number_of_series_is_up_to_who_scrapes(view, book, series):
    for number in range(120):
        make_group(book, b"t", b"g%d" % number, end=5)
    shown = parsed(asyncio.run(render_off_loop(view, asyncio.Lock(), group_series=series)))
    assert sum(key[0] == "penstock_group_lag" for key in shown) == series
    assert shown["penstock_groups_lag",] == 600


def test_the_number_of_series_is_bounded(view):
    assert Api(view).ask("GET", "/metrics?groups=1001").status == 400


def test_groups_beyond_the_bound_are_not_looked_at(view, book, monkeypatch):
    monkeypatch.setattr(module, "GROUPS_MAX", 5)
    monkeypatch.setattr(module, "TOPICS_MAX", 2)
    for topic in (b"a", b"b", b"c"):
        for name in (b"g", b"h", b"i"):
            make_group(book, topic, name, end=1)
    shown = parsed(render(view))
    assert (shown["penstock_queue_topics",], shown["penstock_groups",]) == (2, 5)


def test_others_have_a_turn_while_groups_are_looked_at(view, book, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 1)
    for number in range(50):
        make_group(book, b"t%d" % number, b"g", end=5)
    turns = 0

    async def scrape():
        nonlocal turns
        scraping = asyncio.create_task(render_off_loop(view, asyncio.Lock()))
        while not scraping.done():
            await asyncio.sleep(0)
            turns += 1
        return await scraping

    assert parsed(asyncio.run(scrape()))["penstock_groups",] == 50
    assert turns > 50


def test_scrapes_survey_one_after_the_other(view, book, monkeypatch):
    """However many scrape at once, others wait for one slice at most."""
    monkeypatch.setattr(module, "AT_ONCE", 1)
    make_group(book, b"t", b"g", end=5)
    slices, steps = Survey.slices, []

    def noted(survey):
        for _ in slices(survey):
            steps.append(survey)
            yield

    monkeypatch.setattr(Survey, "slices", noted)

    async def scrape_often():
        surveying = asyncio.Lock()
        await asyncio.gather(*(render_off_loop(view, surveying) for _ in range(5)))

    asyncio.run(scrape_often())
    assert [len(list(run)) for _, run in groupby(steps)] == [2] * 5


def test_a_topic_deleted_meanwhile_is_no_trouble(book):
    for number in range(3):
        make_group(book, b"t%d" % number, b"g", end=5)
    survey = Survey(book)
    steps = survey._visit(survey._names())
    next(steps)
    book.groups.forget_topic(b"t0", 1, recovering=False)
    book.groups.forget_topic(b"t2", 1, recovering=False)
    assert sum(1 for _ in steps) == 3
    assert survey.groups == 1


# ── Under the names of HermesMQ


def test_the_names_and_their_order_are_those_of_its_node():
    names = [metric.name for metric in HERMESMQ]
    assert names == [
        "hermesmq_raft_term",
        "hermesmq_raft_is_leader",
        "hermesmq_raft_current_leader",
        "hermesmq_raft_last_log_index",
        "hermesmq_raft_last_applied",
        "hermesmq_raft_millis_since_quorum_ack",
        "hermesmq_topics",
        "hermesmq_messages",
        "hermesmq_in_flight",
    ]
    assert {metric.kind for metric in HERMESMQ} == {"gauge"}


def test_a_broker_on_its_own_is_the_leader_of_one_node(view, book):
    make_group(book, b"a", b"g", end=7)
    take(book, b"a", b"g", 2)
    text = render(view).decode()
    for line in (
        'hermesmq_raft_term{node="1"} 1.0',
        'hermesmq_raft_is_leader{node="1"} 1.0',
        'hermesmq_raft_current_leader{node="1"} 1.0',
        'hermesmq_raft_last_log_index{node="1"} 18.0',
        'hermesmq_raft_last_applied{node="1"} 18.0',
        'hermesmq_topics{node="1"} 1.0',
        'hermesmq_messages{node="1"} 7.0',
        'hermesmq_in_flight{node="1"} 2.0',
    ):
        assert f"\n{line}\n" in text
