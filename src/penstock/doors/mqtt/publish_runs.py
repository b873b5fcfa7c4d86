"""Publishes that came back to back and can be taken together: one write, one command for many."""

from penstock.core.live import Live
from penstock.wire.mqtt.events import MqttPublishRun, Publish


def joined(stretch: list[MqttPublishRun]) -> Live:
    """Runs that lie side by side in one chunk, with the packets they came in."""
    count = sum([len(run.payloads) for run in stretch])
    return Live(stretch, count, stretch[0].chunk[stretch[0].start : stretch[-1].end])


def is_next(last: MqttPublishRun, event: MqttPublishRun) -> bool:
    """Whether ``event`` lies right behind ``last``, so that both can be sent as one piece."""
    return event.chunk is last.chunk and event.start == last.end


def continues(first: Publish, event: Publish) -> bool:
    """Whether ``event`` may join the run that ``first`` began; QoS 0 to be retained goes alone."""
    return (
        event.topic == first.topic and event.qos == first.qos > 0 and event.retain == first.retain
    )
