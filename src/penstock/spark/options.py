"""The options of the source, parsed and checked before the broker is contacted.

Names are case-insensitive (``docs/spark/source.md``), and those of Kafka's source are accepted too.
An unknown name is an error: silently ignoring an option would read the wrong rows.

>>> source_options({"servers": "127.0.0.1:1883", "subscribe": "pump/#"}).filters
('pump/#',)
"""

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, Literal

import msgspec

from penstock.config.address import parse_listen
from penstock.model.topic import filter_fault, topic_fault
from penstock.spark.login import NAMES as LOGIN_NAMES
from penstock.spark.login import NO_LOGIN, BrokerLogin, login_of
from penstock.spark.options_text import (
    Given,
    boolean,
    count_of,
    option_error,
    positive,
    read_option,
)
from penstock.spark.schema import COLUMNS, DEFAULT_COLUMNS, mask_of


class OffsetSpec(msgspec.Struct, frozen=True):
    """Where to start or end in a topic: an end of it, an offset, or a time."""

    kind: Literal["earliest", "latest", "offset", "time"]
    value: int = 0


LOSS_TOPIC: Final = "penstock/spark/loss"  # the default
EARLIEST: Final = OffsetSpec("earliest")
LATEST: Final = OffsetSpec("latest")


class OffsetSpecs(msgspec.Struct, frozen=True):
    """Offset specs for many topics: some by name, and one for all others."""

    others: OffsetSpec
    named: dict[str, OffsetSpec] = {}

    def of(self, topic: str) -> OffsetSpec:
        return self.named.get(topic, self.others)


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often to retry when the broker is away, and the pause between."""

    retries: int = 3
    pause_s: float = 1.0


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a reader."""

    servers: tuple[str, ...]
    filters: tuple[str, ...]  # MQTT filters; a name matches itself
    pattern: str | None = None  # topic names must match it as a whole
    reader: str | None = None  # the broker shows the stream as a group of this name on every topic
    start: OffsetSpecs = OffsetSpecs(EARLIEST)
    end: OffsetSpecs = OffsetSpecs(LATEST)
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay_s: float = 900.0
    max_bytes: int | None = None
    min_partitions: int | None = None
    max_partition_rows: int | None = None
    fails_on_loss: bool = True
    loss_topic: str = LOSS_TOPIC
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    verifies: bool = False
    poll_s: float = 0.5
    retry: RetryPolicy = RetryPolicy()
    archive: str | None = None
    login: BrokerLogin = NO_LOGIN

    @property
    def mask(self) -> int:
        return mask_of(self.columns, verify=self.verifies)


_NAMES: Final = (
    *("servers", *LOGIN_NAMES, "subscribe", "subscribePattern", "assign", "reader"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"),
    *("minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "lossTopic"),
    *("includeHeaders", "includeSignatures", "includeIncarnation", "verifySignatures", "columns"),
    *("pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "archive"),
)

ALIASES: Final = {
    "kafka.bootstrap.servers": "servers",
    "kafka.group.id": "reader",
    "groupid": "reader",
}

# options that Spark adds
SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "provider", "mode"})


_SECRETS: Final = {"password": "passwordFile", "token": "tokenFile", "secret": "passwordFile"}


def check_names(given: Collection[str], names: Collection[str]) -> None:
    aliases = [alias for alias, name in ALIASES.items() if name in names]
    known = {name.lower(): name for name in (*names, *aliases)}
    for name in given:
        if name not in known and name not in SPARKS_OWN and not name.startswith("spark."):
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {known[near[0]]}?" if near else "leave it out."
            if name in _SECRETS:
                meant = f"plans and logs would show it: use {_SECRETS[name]}."
            raise option_error(name, "no such option", f"{meant} Options are {', '.join(names)}")


_OF_BATCHES: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "archive")
_OF_STREAMS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)


def check_stream(options: Mapping[str, str]) -> None:
    given = normal(options)
    for name in _OF_BATCHES:
        if name.lower() in given:
            advice = "a stream has no end and reads only the broker: remove it, or use spark.read"
            raise option_error(name, "is for batch reads only", advice)


def check_batch(options: Mapping[str, str], read: "SourceOptions") -> None:
    given = normal(options)
    for name in _OF_STREAMS:
        if name.lower() in given:
            advice = "a batch reads its whole range: remove it, or use spark.readStream"
            raise option_error(name, "is for streams only", advice)
    if read.start.others == LATEST:
        advice = "use earliest, an offset or a time; a batch ends at the latest offset by default"
        raise option_error(
            "startingOffsets", "a batch that starts at the latest offset is empty", advice
        )


def normal(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for key, value in options.items():
        name = ALIASES.get(key.lower(), key.lower())
        if given.setdefault(name, value) != value:
            raise option_error(key, f"contradicts {name}", "give one of them")
    return given


def source_options(options: Mapping[str, str]) -> SourceOptions:
    check_names([key.lower() for key in options], _NAMES)
    given = normal(options)
    filters, pattern = _topics(given)
    return SourceOptions(
        servers=servers_of(given),
        filters=filters,
        pattern=pattern,
        reader=_reader(given),
        start=_offset_specs(given, "starting", EARLIEST),
        end=_offset_specs(given, "ending", LATEST),
        max_rows=positive(given, "maxOffsetsPerTrigger"),
        min_rows=positive(given, "minOffsetsPerTrigger"),
        max_delay_s=read_option(given, "maxTriggerDelay", _seconds, 900.0),
        max_bytes=positive(given, "maxBytesPerTrigger"),
        min_partitions=positive(given, "minPartitions"),
        max_partition_rows=positive(given, "maxRecordsPerPartition"),
        fails_on_loss=boolean(given, "failOnDataLoss", default=True),
        loss_topic=read_option(given, "lossTopic", topic_name, LOSS_TOPIC),
        columns=_columns(given),
        verifies=boolean(given, "verifySignatures"),
        poll_s=read_option(given, "pollTimeoutMs", count_of, 500) / 1000,
        retry=RetryPolicy(
            read_option(given, "fetchOffset.numRetries", count_of, 3),
            read_option(given, "fetchOffset.retryIntervalMs", count_of, 1000) / 1000,
        ),
        archive=given.get("archive"),
        login=login_of(given),
    )


_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError("write a number and one of ms, s, m, h, d, as in 15m")
    return int(found[1]) * _UNITS[found[2]]


def _milliseconds(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("write milliseconds since 1970, or 2030-01-31T12:00:00+00:00") from None
    return max(0, round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))


def topic_name(text: str) -> str:
    fault = topic_fault(text.encode())
    if fault:
        raise ValueError(f"not a topic name: {fault}")
    return text


def servers_of(given: Given) -> tuple[str, ...]:
    servers = tuple(part.strip() for part in given.get("servers", "").split(",") if part.strip())
    if not servers:
        raise option_error("servers", "is missing", "give the broker's address: 127.0.0.1:1883")
    for server in servers:
        try:
            parse_listen(server)
        except ValueError as error:
            raise option_error("servers", f"{server!r} is invalid", str(error)) from None
    return servers


def _reader(given: Given) -> str | None:
    name = given.get("reader")
    if name is not None and not name.strip():
        raise option_error("reader", "is empty", "give the query a name, or leave it out")
    return name


def _topics(given: Given) -> tuple[tuple[str, ...], str | None]:
    ways = [name for name in ("subscribe", "subscribepattern", "assign") if name in given]
    if len(ways) != 1:
        fault = f"{' and '.join(ways)} contradict each other" if ways else "is missing"
        raise option_error("subscribe", fault, "give one of subscribe, subscribePattern and assign")
    if ways == ["subscribepattern"]:
        return ("#",), read_option(given, "subscribePattern", _pattern, None)
    if ways == ["assign"]:
        return read_option(given, "assign", _assigned, ()), None
    return read_option(given, "subscribe", _filters, ()), None


def _filters(text: str) -> tuple[str, ...]:
    filters = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not filters:
        raise ValueError("name a topic or a filter, or several separated by commas")
    for one in filters:
        fault = filter_fault(one.encode())
        if fault:
            raise ValueError(f"{one!r} is not a topic filter: {fault}")
    return filters


def _pattern(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"write a regular expression: {error}") from None
    return text


def _assigned(text: str) -> tuple[str, ...]:
    names = _json(text)
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ValueError('write a list of topics as JSON, as in ["pump/1", "pump/2"]')
    return tuple(dict.fromkeys(map(topic_name, names)))


def _json(text: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise ValueError(f"write JSON: {error}") from None
    return found


def _offset_specs(given: Given, which: str, default: OffsetSpec) -> OffsetSpecs:
    names = (f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp")
    ways = [name for name in names if name.lower() in given]
    if len(ways) > 1:
        raise option_error(ways[0], f"contradicts {ways[1]}", "give one of them")
    specs = OffsetSpecs(default)
    specs = read_option(given, names[0], lambda text: _offsets(text, which, default), specs)
    specs = read_option(
        given, names[1], lambda text: OffsetSpecs(OffsetSpec("time", _milliseconds(text))), specs
    )
    return read_option(given, names[2], lambda text: _times(text, default), specs)


def _offsets(text: str, which: str, default: OffsetSpec) -> OffsetSpecs:
    word = text.lower()
    if word == "latest":
        return OffsetSpecs(LATEST)
    if word == "earliest" and which == "starting":
        return OffsetSpecs(EARLIEST)
    if not text.startswith("{"):
        words = "earliest, latest" if which == "starting" else "latest"
        raise ValueError(f'write {words}, or offsets as JSON: {{"pump/1": 17}}')
    return OffsetSpecs(default, {topic: _offset(value) for topic, value in _by_topic(text).items()})


def _offset(value: object) -> OffsetSpec:
    if type(value) is not int or value < -2:
        raise ValueError("an offset is a whole number; -1 is latest, -2 earliest")
    ends = {-1: LATEST, -2: EARLIEST}
    return ends.get(value) or OffsetSpec("offset", value)


def _times(text: str, default: OffsetSpec) -> OffsetSpecs:
    times = {topic: _milliseconds(str(value)) for topic, value in _by_topic(text).items()}
    return OffsetSpecs(default, {topic: OffsetSpec("time", time) for topic, time in times.items()})


def _by_topic(text: str) -> dict[str, object]:
    found = _json(text)
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - it is the text that is wrong
            'write a JSON object by topics: {"pump/1": 17}'
        )
    return found


_INCLUDED: Final = (
    ("includeHeaders", "headers"),
    ("includeHeaders", "expires"),
    ("includeSignatures", "signature"),
    ("includeIncarnation", "incarnation"),
)


def _columns(given: Given) -> tuple[str, ...]:
    columns = read_option(given, "columns", _chosen, DEFAULT_COLUMNS)
    included = [column for option, column in _INCLUDED if boolean(given, option)]
    return tuple(dict.fromkeys((*columns, *included)))


def _chosen(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or not names:
        raise ValueError(f"choose from {', '.join(COLUMNS)}")
    return names
