"""Exports spans to a collector, by OTLP over HTTP.

A thread of its own sends what has gathered, every second or when there is a portion. While the
collector is away or slow, what does not fit is dropped and counted: tracing never holds up the
broker.

Needs the extra ``otel``; without ``tracing.endpoint`` nothing of it is imported.
"""

import threading
from collections import deque
from itertools import islice
from typing import Any, Final, NamedTuple

from penstock.errors import ConfigError
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger

SPANS_WAITING_MAX: Final = 8_192
PORTION: Final = 512
INTERVAL_S: Final = 1.0
CLOSE_S: Final = 3.0  # a collector that is away must not hold up the end of the broker

_log = get_logger("tracing")


class Span(NamedTuple):
    """What the broker did about a message. Ids are hexadecimal, as in ``traceparent``."""

    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    begin_ms: float
    end_ms: float
    attributes: dict[str, str | int]


class SpanExporter:
    """Takes spans on the event loop, and sends them on a thread."""

    def __init__(self, endpoint: str, service: str, version: str, counters: Counters) -> None:
        """Raises ConfigError if the extra is not installed."""
        self._counts = counters.spans_total
        self._make, self._exporter = _open_telemetry(endpoint, service, version)
        self._waiting: deque[Span] = deque()
        self._wakened = threading.Event()
        self._is_closed = False
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def add(self, span: Span) -> None:
        if len(self._waiting) >= SPANS_WAITING_MAX:
            self._counts["dropped"] += 1
            return
        self._waiting.append(span)
        if len(self._waiting) == PORTION:
            self._wakened.set()

    def close(self) -> None:
        """Send what is there, for a few seconds at most."""
        self._is_closed = True
        self._wakened.set()
        self._thread.join(CLOSE_S)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._is_closed:
            self._wakened.wait(INTERVAL_S)
            self._wakened.clear()
            while self._waiting:
                self._send()

    def _send(self) -> None:
        portion = list(islice(self._waiting, PORTION))
        try:
            is_sent = self._exporter.export(list(map(self._make, portion))).value == 0
        except Exception as error:  # noqa: BLE001 - whatever the network does to a library
            _log.debug("export_failed", error=repr(error))
            is_sent = False
        for _ in portion:
            self._waiting.popleft()
        self._counts["exported" if is_sent else "failed"] += len(portion)
        if is_sent is self._has_failed:
            self._has_failed = not is_sent
            tell = _log.info if is_sent else _log.warning
            tell("collector_back" if is_sent else "collector_unreachable")


def _open_telemetry(endpoint: str, service: str, version: str) -> tuple[Any, Any]:
    """A function that makes its spans of ours, and its exporter."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags  # noqa: PLC0415
    except ImportError as error:
        what = f"tracing.endpoint needs OpenTelemetry, which is not installed ({error.name})"
        raise ConfigError(what, "pip install 'penstock-mq[otel]', or remove the option") from None
    resource = Resource.create({"service.name": service, "service.version": version})
    scope = InstrumentationScope("penstock", version)
    kinds = {"deliver": SpanKind.PRODUCER, "receive": SpanKind.CONSUMER}

    def context(span: Span, span_id: bytes) -> Any:
        trace_id, flags = int(span.trace_id, 16), TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(trace_id, int(span_id, 16), is_remote=False, trace_flags=flags)

    def make(span: Span) -> Any:
        return ReadableSpan(
            name=span.name,
            context=context(span, span.span_id),
            parent=context(span, span.parent_id),
            resource=resource,
            attributes=span.attributes,
            kind=kinds.get(span.name, SpanKind.INTERNAL),
            instrumentation_scope=scope,
            start_time=int(span.begin_ms * 1_000_000),
            end_time=int(span.end_ms * 1_000_000),
        )

    return make, OTLPSpanExporter(endpoint=endpoint)
