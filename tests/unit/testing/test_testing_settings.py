"""The keywords of a test's broker: read and checked as the configuration file is."""

import pytest

from penstock.errors import ConfigError
from penstock.testing import AsyncBroker, Broker


@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limits": {"nope": 1}}, "limits.nope: unknown option"),
        ({"limits": {"client_max": 1}}, "did you mean limits.clients_max?"),
        ({"limts": {"clients_max": 1}}, "did you mean limits.clients_max?"),
        ({"limts": {}}, "limts: unknown option"),
        ({"colour": 1}, "colour: unknown option"),
        ({"limits": {"clients_max": 0}}, "limits.clients_max: must be 1 to 1_000_000, not 0"),
        ({"limits": 5}, "limits is a section, not an option"),
        ({"log": 5, "log_level": "info"}, "log is a section, not an option"),
        ({"log_level": "loud"}, "log.level: must be debug, info, warning or error"),
        ({"retention": {"rules": [{"age_s_max": 1}]}}, "a rule needs a filter"),
        ({"journal": {"capture_exclude": ["a/#/b"]}}, "is not a topic filter"),
        ({"port": 99_999}, "the port must be at most 65535"),
        ({"data": ""}, "data: must not be empty"),
    ],
)
def test_a_wrong_setting_is_refused_at_once_with_advice(kind, options, said):
    with pytest.raises(ConfigError) as refused:
        kind(**options)
    assert said in str(refused.value)


def test_all_wrong_settings_are_told_together():
    with pytest.raises(ConfigError) as refused:
        Broker(colour=1, limits={"clients_max": 0})
    assert "colour" in str(refused.value)
    assert "limits.clients_max" in str(refused.value)


def test_durations_and_sizes_may_be_text_with_a_unit():
    limits = {"session_expiry_s": "1h", "packet_bytes_max": "64KiB"}
    with Broker(limits=limits, journal={"map_bytes_initial": "32MiB"}) as broker:
        config = broker.server.config
    assert config.limits.session_expiry_s == 3600
    assert config.limits.packet_bytes_max == 65_536
    assert config.journal.map_bytes_initial == 32 << 20


def test_lists_and_rules_are_taken_and_a_rule_inherits_from_its_section():
    rules = [{"filter": "a/#", "messages_max": 3}]
    retention = {"age_s_max": "2h", "rules": rules}
    with Broker(retention=retention, journal={"capture_exclude": ["b/#"]}) as broker:
        config = broker.server.config
    assert config.journal.capture_exclude == ("b/#",)
    (rule,) = config.retention.rules
    assert (rule.filter, rule.messages_max, rule.age_s_max) == ("a/#", 3, 7200)


def test_limits_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match=r"is above limits\.packet_bytes_max"):
        Broker(limits={"packet_bytes_max": 2_000, "connect_bytes_max": 3_000})


@pytest.mark.parametrize("bound", [65_536, "64KiB"])
def test_a_limit_that_was_left_out_gives_way_to_the_one_given(bound):
    with Broker(limits={"outbound_bytes_max": bound}) as broker:
        assert broker.server.config.limits.packet_bytes_max == 65_536
    with Broker(limits={"packet_bytes_max": 2_000}) as broker:
        assert broker.server.config.limits.connect_bytes_max == 2_000


def test_a_limit_that_was_left_out_is_never_raised():
    with Broker(limits={"packet_bytes_max": "1MiB"}) as broker:
        assert broker.server.config.limits.connect_bytes_max == 16_384


def test_the_environment_is_not_looked_at(monkeypatch):
    monkeypatch.setenv("PENSTOCK_LIMITS_CLIENTS_MAX", "3")
    monkeypatch.setenv("PENSTOCK_NONSENSE", "3")
    with Broker() as broker:
        assert broker.server.config.limits.clients_max != 3
