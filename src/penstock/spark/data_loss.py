"""Reports rows that can no longer be read.

With ``failOnDataLoss`` (the default) the job fails. Otherwise the loss is published to the loss
topic, where an audit finds it; its producer id is a hash, so a retried batch reports it once:

>>> loss_message(Loss("pump/7", 3, 0, 100, "removed"), "archive")
b'{"topic":"pump/7","incarnation":3,"begin":0,"end":100,"reason":"removed","reader":"archive"}'
"""

import logging
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from penstock.client.queue.blocking import QueueClient
from penstock.errors import PenstockError
from penstock.spark.broker import CALL_S, with_retries
from penstock.spark.options import SourceOptions
from penstock.spark.planning import Loss

_LOG = logging.getLogger("penstock.spark")

_REASONS: Final = {
    "removed": "were removed by retention before they were read",
    "deleted": "were in a topic that was deleted before they were read",
    "made anew": "were in a topic that was deleted before they were read, and created again",
    "cut back": "are gone from the end of the topic: the broker was restored from an older copy",
}


class LossError(PenstockError):
    """Rows are lost, and ``failOnDataLoss`` is set."""


def report_losses(options: SourceOptions, losses: Sequence[Loss]) -> None:
    if not losses:
        return
    if options.fails_on_loss:
        raise LossError(_text(losses), _advice(options))
    for loss in losses:
        _LOG.warning("%s", _text([loss]))
        _publish(options, loss_message(loss, options.reader))


def loss_message(loss: Loss, reader: str | None) -> bytes:
    return msgspec.json.encode({**loss._asdict(), "reader": reader})


def _publish(options: SourceOptions, payload: bytes) -> None:
    producer = f"loss-{blake2b(payload, digest_size=16).hexdigest()}"

    def ask() -> None:
        with QueueClient(
            options.servers, producer_id=producer, timeout_s=CALL_S, **options.login.keywords()
        ).open() as client:
            client.produce(options.loss_topic, payload, seq=1, content_type="json")

    with_retries(options.retry, ask)


def _text(losses: Sequence[Loss]) -> str:
    first = losses[0]
    end = "on" if first.end is None else f"to {first.end - 1}"
    more = f" (and {len(losses) - 1} more ranges)" if len(losses) > 1 else ""
    return f"offsets from {first.begin} {end} of {first.topic!r} {_REASONS[first.reason]}{more}"


def _advice(options: SourceOptions) -> str:
    reader = "" if options.reader is None else " and another reader name"
    return (
        "to go on without them, set failOnDataLoss=false: each loss is then published to the topic "
        f"{options.loss_topic}; or start over with a new checkpoint{reader}"
    )
