"""Options: what they mean, and what is said of wrong ones."""

import pytest

from penstock.errors import ConfigError
from penstock.spark.options import EARLIEST, LATEST, OffsetSpec, RetryPolicy, source_options
from penstock.spark.schema import COLUMNS, DEFAULT_COLUMNS

LEAST = {"servers": "127.0.0.1:1883", "subscribe": "pump/#"}


def read(**given: str):
    return source_options({**LEAST, **given})


def fault(**given: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**given)
    return str(caught.value)


def test_servers_are_separated_by_commas():
    assert read(servers="a:1, b:2").servers == ("a:1", "b:2")


@pytest.mark.parametrize("wrong", ["localhost", "1883", "http://a:1883", "a:1,b", "a:99999"])
def test_an_address_that_is_none_is_refused_before_anything_runs(wrong):
    with pytest.raises(ConfigError, match=r"option servers: .* is invalid"):
        read(servers=wrong)


def test_without_servers_it_is_said_what_is_missing():
    with pytest.raises(ConfigError, match="servers: is missing"):
        source_options({"subscribe": "a"})


def test_names_of_options_come_in_any_case():
    assert source_options({"SERVERS": "a:1", "Subscribe": "t", "MINpartitions": "3"}) == (
        source_options({"servers": "a:1", "subscribe": "t", "minPartitions": "3"})
    )


def test_kafkas_names_mean_the_same():
    options = source_options(
        {"kafka.bootstrap.servers": "a:1", "kafka.group.id": "g", "subscribe": "t"}
    )
    assert (options.servers, options.reader) == (("a:1",), "g")


def test_two_names_for_one_option_must_agree():
    assert "contradicts" in fault(reader="a", groupId="b")
    assert read(reader="a", groupId="a").reader == "a"


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("subscibe", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
    ],
)
def test_a_typo_is_answered_with_what_may_have_been_meant(typo, meant):
    assert f"did you mean {meant}?" in fault(**{typo: "1"})


def test_an_option_unlike_all_others_is_refused_with_the_list_of_them():
    assert "failOnDataLoss" in fault(zzz="1")


@pytest.mark.parametrize("name", ["path", "checkpointLocation", "queryName"])
def test_what_spark_adds_itself_is_passed_over(name):
    assert read(**{name: "x"}) == read()


# ── Topics


def test_names_and_filters_are_separated_by_commas():
    assert read(subscribe="a/1, b/+ ,c/#,a/1").filters == ("a/1", "b/+", "c/#")


@pytest.mark.parametrize("wrong", ["", ",", "a/#/b", "a+/b"])
def test_a_wrong_filter_is_refused(wrong):
    assert "subscribe" in fault(subscribe=wrong)


def test_a_pattern_is_matched_here_among_all_topics():
    options = source_options({"servers": "a:1", "subscribePattern": "pump/[0-9]+"})
    assert (options.filters, options.pattern) == (("#",), "pump/[0-9]+")


def test_a_wrong_pattern_is_refused():
    with pytest.raises(ConfigError, match="regular expression"):
        source_options({"servers": "a:1", "subscribePattern": "("})


def test_topics_are_assigned_as_json():
    options = source_options({"servers": "a:1", "assign": '["a,b", "c"]'})
    assert options.filters == ("a,b", "c")


@pytest.mark.parametrize("wrong", ["a", "{}", "[]", "[1]", '["a/#"]'])
def test_what_is_no_list_of_topics_is_not_assigned(wrong):
    with pytest.raises(ConfigError, match="assign"):
        source_options({"servers": "a:1", "assign": wrong})


def test_topics_are_named_in_one_way_only():
    assert "contradict" in fault(assign='["a"]')
    with pytest.raises(ConfigError, match="subscribe: is missing"):
        source_options({"servers": "a:1"})


# ── Places


def test_without_more_everything_is_read():
    options = read()
    assert (options.start.of("t"), options.end.of("t")) == (EARLIEST, LATEST)


def test_offsets_are_words_or_numbers_by_topic():
    start = read(startingOffsets='{"a": 7, "b": -1, "c": -2}').start
    assert [start.of(name) for name in "abcd"] == [
        OffsetSpec("offset", 7),
        LATEST,
        EARLIEST,
        EARLIEST,
    ]
    assert read(startingOffsets="Latest").start.of("a") == LATEST
    assert read(endingOffsets='{"a": 7}').end.of("b") == LATEST


@pytest.mark.parametrize(
    "wrong", ["first", "7", "{", '{"a": -3}', '{"a": "7"}', '{"a": true}', "[]"]
)
def test_wrong_offsets_are_refused(wrong):
    assert "startingOffsets" in fault(startingOffsets=wrong)


def test_nothing_ends_at_the_beginning():
    assert "endingOffsets" in fault(endingOffsets="earliest")


@pytest.mark.parametrize(
    "text", ["1767225600000", "2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T01:00:00+01:00"]
)
def test_times_are_milliseconds_or_iso_and_utc_without_a_zone(text):
    assert read(startingTimestamp=text).start.of("t") == OffsetSpec("time", 1767225600000)
    by_topic = read(endingOffsetsByTimestamp=f'{{"a": "{text}"}}').end
    assert by_topic.of("a") == OffsetSpec("time", 1767225600000)
    assert by_topic.of("b") == LATEST


def test_a_wrong_time_is_refused():
    assert "startingTimestamp" in fault(startingTimestamp="yesterday")


def test_a_beginning_is_given_in_one_way_only():
    assert "contradicts" in fault(startingOffsets="latest", startingTimestamp="1")


# ── The rest


@pytest.mark.parametrize(
    "name",
    [
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition",
    ],
)
@pytest.mark.parametrize("wrong", ["0", "-1", "many", "1.5", "", "\u0661"])
def test_limits_are_numbers_greater_than_none(name, wrong):
    assert name in fault(**{name: wrong})


def test_limits_are_read():
    options = read(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5", maxTriggerDelay="2m")
    assert (options.max_rows, options.min_rows, options.max_delay_s) == (10, 5, 120)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("90 s", 90), ("1h", 3600), ("500ms", 0.5)]
)
def test_a_delay_has_a_unit(text, seconds):
    assert read(maxTriggerDelay=text).max_delay_s == seconds


def test_retries_are_kafkas():
    options = read(**{"fetchOffset.numRetries": "7", "fetchOffset.retryIntervalMs": "20"})
    assert options.retry == RetryPolicy(7, 0.02)


def test_booleans_are_words():
    assert not read(failOnDataLoss="False").fails_on_loss
    assert "failOnDataLoss" in fault(failOnDataLoss="no")


# ── Columns


def test_the_usual_columns_come_without_being_asked_for():
    options = read()
    assert options.columns == DEFAULT_COLUMNS
    assert options.mask == 1 | 4 | 16


def test_columns_are_chosen_in_their_order_and_nothing_else_is_fetched():
    options = read(columns="payload, topic")
    assert (options.columns, options.mask) == (("payload", "topic"), 1)
    assert read(columns="topic,offset,timestamp,priority").mask == 32
    assert read(columns="headers").mask == 2


def test_what_is_included_comes_behind():
    options = read(columns="topic", includeHeaders="true", includeSignatures="true")
    assert options.columns == ("topic", "headers", "expires", "signature")
    assert read(includeIncarnation="true").columns == (*DEFAULT_COLUMNS, "incarnation")


def test_to_verify_takes_payloads_although_they_are_not_chosen():
    assert read(columns="signature_verdict", verifySignatures="true").mask == 1 | 4


def test_a_column_that_is_not_there_is_refused_with_those_that_are():
    message = fault(columns="topic,value")
    assert all(name in message for name in COLUMNS)
