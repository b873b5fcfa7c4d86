"""All ordinary QoS 0 packets of a chunk as one event, which only a compiled broker makes.

The Python form has a ``MqttPublishRun`` for each run of packets to one topic. It is the
specification: ``PublishFrames.runs`` gives the same runs. See ``kernel/publishes.pyx``.
"""

from typing import TYPE_CHECKING

from penstock import kernel

__all__ = ["PublishFrames"]

if TYPE_CHECKING or kernel.is_compiled:
    from penstock.kernel.publishes import PublishFrames
else:

    class PublishFrames:
        """Never made here."""
