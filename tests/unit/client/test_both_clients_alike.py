"""Each blocking client offers the operations of its asyncio counterpart, with the same signatures."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import get_args, get_origin

import pytest

from penstock import client

PAIRS = [
    (client.QueueClient, client.AsyncQueueClient),
    (client.Subscription, client.AsyncSubscription),
    (client.Publisher, client.AsyncPublisher),
    (client.QueueProducer, client.AsyncQueueProducer),
    (client.Subscriber, client.AsyncSubscriber),
    (client.Worker, client.AsyncWorker),
]
ONLY_BLOCKING = {"when_lost"}  # it is called by a thread, which the asyncio client has not


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def blocking_form(annotation):
    """What stands in a blocking signature where this stands in an asynchronous one."""
    if annotation is client.AsyncSubscription:
        return client.Subscription
    if get_origin(annotation) is AsyncIterator:
        return Iterator[get_args(annotation)]
    if get_origin(annotation) is Callable and get_origin(get_args(annotation)[1]) is Awaitable:
        parameters, result = get_args(annotation)
        return Callable[parameters, get_args(result)[0]]
    return annotation


def shape(function, form):
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=form(parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    return parameters, form(signature.return_annotation)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_both_offer_the_same_names(pair):
    blocking, asynchronous = pair
    assert public(blocking) - ONLY_BLOCKING == public(asynchronous)


def methods():
    return [
        pytest.param(*pair, name, id=f"{pair[0].__name__}.{name}")
        for pair in PAIRS
        for name in sorted(public(pair[1]) | {"__init__"})
        if callable(getattr(pair[1], name))
    ]


@pytest.mark.parametrize(("blocking", "asynchronous", "name"), methods())
def test_both_have_the_same_signature(blocking, asynchronous, name):
    ours, theirs = getattr(blocking, name), getattr(asynchronous, name)
    assert shape(ours, lambda annotation: annotation) == shape(theirs, blocking_form)
    assert not inspect.iscoroutinefunction(ours)
    assert ours.__doc__ or not theirs.__doc__


def test_no_blocking_method_speaks_of_await():
    texts = [getattr(kind, name).__doc__ or "" for kind, _ in PAIRS for name in public(kind)]
    assert not [text for text in texts if "await " in text]
