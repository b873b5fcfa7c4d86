"""Every mistake has a text that says where, what, and what to write instead."""

import pytest

from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError
from penstock.errors import ConfigError


def problems_of(tmp_path, text="", environ=None, flags=None):
    path = tmp_path / "p.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigProblemsError) as caught:
        load(str(path), environ or {}, flags or {})
    return [str(problem).replace(str(path), "p.toml") for problem in caught.value.problems]


FILE_MISTAKES = [
    ("dta = 'x'", "line 1: dta: unknown option\n  did you mean data?"),
    ("zzz = 1", "line 1: zzz: unknown option"),
    ("limits.nope = 1", "line 1: limits.nope: unknown option"),
    ('"" = 1', "line 1: unknown option"),
    ("clients_max = 1", "line 1: clients_max: unknown option\n  did you mean limits.clients_max?"),
    (
        "[limits]\n\nclient_max = 1",
        "line 3: limits.client_max: unknown option\n  did you mean limits.clients_max?",
    ),
    (
        "[log]\ndata = 'x'",
        ("line 2: log.data: unknown option\n  did you mean data?"
        " Options without a section come before the first [section]"),
    ),
    ("[limitz]\nx = 1", "line 1: limitz: unknown section\n  did you mean limits?"),
    (
        "limits = 5",
        "line 1: limits: is a section, not an option\n  write [limits] and its options below",
    ),
    ("data = 5", "line 1: data: must be text in quotes, not 5"),
    ("data = ''", "line 1: data: must not be empty"),
    ("allow_anonymous = 1", "line 1: allow_anonymous: must be true or false, not 1"),
    ("allow_anonymous = 'on'", 'line 1: allow_anonymous: must be true or false, not "on"'),
    (
        "durability = 'syncc'",
        'line 1: durability: must be sync or interval, not "syncc"\n  did you mean sync?',
    ),
    ("log.level = 1", "line 1: log.level: must be debug, info, warning or error, not 1"),
    ("limits.clients_max = 0", "line 1: limits.clients_max: must be 1 to 1_000_000, not 0"),
    ("limits.clients_max = true", "line 1: limits.clients_max: must be a number, not true"),
    ("limits.clients_max = []", "line 1: limits.clients_max: must be a number, not []"),
    ("limits.clients_max = 1.5", "line 1: limits.clients_max: must be a whole number, not 1.5"),
    ("limits.clients_max = 'x'", 'line 1: limits.clients_max: must be a number, not "x"'),
    (
        "limits.packet_bytes_max = '1MB'",
        ('line 1: limits.packet_bytes_max: must be a size such as "64KiB", "16MiB" or "1GiB",'
        ' or a number of bytes, not "1MB"'),
    ),
    (
        "limits.session_expiry_s = '1500ms'",
        'line 1: limits.session_expiry_s: must be a whole number of seconds, not "1500ms"',
    ),
    ("sys.interval_s = nan", "line 1: sys.interval_s: must be 0 to 1d, not NaN"),
    ("sys.interval_s = inf", "line 1: sys.interval_s: must be 0 to 1d, not Infinity"),
    ("sys.interval_s = 1979-05-27", 'line 1: sys.interval_s: must be a number, not "1979-05-27"'),
    ("listen = [1883]", "line 1: listen: must be a list of texts, not [1883]"),
    ("listen = ['1883']", 'line 1: listen: "1883" has no host: write "127.0.0.1:1883"'),
    (
        "listen = ['localhost:1', 'localhost:1']",
        "line 1: listen: localhost:1 is listed twice\n  remove it or change its port",
    ),
    (
        "http_listen = ['127.0.0.1:1883']",
        "line 1: http_listen: 127.0.0.1:1883 is listed twice\n  remove it or change its port",
    ),
    (
        "http_listen = []\nlisten = []",
        'line 2: listen: there is no address to listen on\n  write listen = ["127.0.0.1:1883"]',
    ),
    (
        "[journal]\ncapture_exclude = ['a/#/b']",
        ('line 2: journal.capture_exclude: "a/#/b" is not a topic filter:'
        " '#' must be the whole last level"),
    ),
    (
        "[limits]\nconnect_bytes_max = '64KiB'\npacket_bytes_max = '32KiB'",
        ("line 2: limits.connect_bytes_max: is above limits.packet_bytes_max"
        "\n  lower it or raise the other"),
    ),
    (
        "[limits]\npacket_bytes_max = '32MiB'",
        ("line 2: limits.packet_bytes_max: is above limits.outbound_bytes_max, so the largest"
        " messages could never be delivered\n  lower it or raise the other"),
    ),
    (
        "[retention]\nrules = 5",
        ("line 2: retention.rules: must be an array of tables\n"
        "  write [[retention.rules]] above each of them"),
    ),
    (
        "[[retention.rules]]\nage_s_max = 5",
        'line 1: retention.rules[0]: a rule needs a filter\n  add filter = "some/topic/#"',
    ),
    (
        "[[retention.rules]]\nfilter = 'a'\n[[retention.rules]]\nfilter = 'b+'",
        "line 4: retention.rules[1].filter: \"b+\" is not a topic filter: '+' must be a whole level",
    ),
    (
        "[[retention.rules]]\nfilter = 'a'\nage_max = 5",
        "line 3: retention.rules[0].age_max: unknown option\n  did you mean age_s_max?",
    ),
    (
        "[retention]\nrules = [{filter = 'a', age_s_max = -1}]",
        "line 2: retention.rules[0].age_s_max: must be 0 to 36_500d, not -1",
    ),
    ("data = 'x'\na b", "line 2 column 3: not valid TOML: expected '=' after a key in a key/value pair"),
    ("data = [", "line 1: not valid TOML: invalid value"),
    (b"data = '\xff'", "is not UTF-8 text"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FILE_MISTAKES)
def test_mistake_in_the_file_is_named_with_its_line(tmp_path, text, expected):
    separator = " " if expected.startswith("line") else ": "
    assert problems_of(tmp_path, text) == [f"file p.toml{separator}{expected}"]


ENVIRONMENT_MISTAKES = [
    ("PENSTOCK_LIMIT_CLIENTS_MAX", "1", "unknown option\n  did you mean PENSTOCK_LIMITS_CLIENTS_MAX?"),
    ("PENSTOCK_CONFG", "x", "unknown option\n  did you mean PENSTOCK_CONFIG?"),
    ("PENSTOCK_D", "x", "unknown option"),
    ("PENSTOCK_DATA", "", "data: must not be empty"),
    ("PENSTOCK_LIMITS_CLIENTS_MAX", "many", 'limits.clients_max: must be a number, not "many"'),
    ("PENSTOCK_LISTEN", "localhost:1,2", 'listen: "2" has no host: write "127.0.0.1:2"'),
    (
        "PENSTOCK_RETENTION_RULES",
        "logs/#",
        ("retention.rules: must be an array of tables\n"
        '  write it as in [{filter = "logs/#", age_s_max = "1d"}]'),
    ),
    (
        "PENSTOCK_RETENTION_RULES",
        "[{filter = '#', bytes_max = '1'}, {filter = 'a', bytes_max = '-1'}]",
        'retention.rules[1].bytes_max: must be 0 to 64TiB, not "-1"',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("variable", "text", "expected"), ENVIRONMENT_MISTAKES)
def test_mistake_in_the_environment_is_named_with_its_variable(tmp_path, variable, text, expected):
    found = problems_of(tmp_path, environ={variable: text})
    assert found == [f"environment {variable}: {expected}"]


def test_mistake_in_a_flag_is_named_with_its_key(tmp_path):
    found = problems_of(tmp_path, flags={"limits.clients_max": "0", "limts.inflight_max": "1"})
    assert found == [
        "flag: limts.inflight_max: unknown option\n  did you mean limits.inflight_max?",
        'flag: limits.clients_max: must be 1 to 1_000_000, not "0"',
    ]


SMALL = "[limits]\npacket_bytes_max = '1KiB'\n"  # below the default of connect_bytes_max


def test_all_problems_are_reported_together(tmp_path):
    text = "dat = 1\nlisten = ['1', '2']\n[limits]\nclients_max = 0\ninflight_max = 'x'"
    found = problems_of(tmp_path, text, {"PENSTOCK_X": ""}, {"durability": "none"})
    assert len(found) == 7


def test_a_mistake_does_not_hide_a_contradiction_elsewhere(tmp_path):
    text = "listen = ['x']\n[limits]\npacket_bytes_max = '32MiB'"
    first, second = problems_of(tmp_path, text)
    assert "line 1: listen: " in first
    assert "line 3: limits.packet_bytes_max: is above" in second


def test_problems_of_a_file_are_in_the_order_of_its_lines(tmp_path):
    text = "listen = ['1']\nlog.level = 'x'\nzzz = 1\ndata = 5\nyyy = 1"
    found = problems_of(tmp_path, text, {"PENSTOCK_X": ""}, {"zzz": "1"})
    places = [f"file p.toml line {line}" for line in range(1, 6)]
    places += ["environment PENSTOCK_X", "flag"]
    assert [problem.partition(":")[0] for problem in found] == places


@pytest.mark.parametrize(
    ("text", "environ", "flags"),
    [
        (f"{SMALL}connect_bytes_max = 'x'", {}, {}),
        (f"{SMALL}conect_bytes_max = '1KiB'", {}, {}),
        (SMALL, {"PENSTOCK_LIMITS_CONECT_BYTES_MAX": "1KiB"}, {}),
        (SMALL, {}, {"limits.conect_bytes_max": "1KiB"}),
        ("connect_bytes_max = 1\n!", {"PENSTOCK_LIMITS_PACKET_BYTES_MAX": "1KiB"}, {}),
    ],
)
def test_what_a_mistake_leaves_unknown_is_not_held_against_other_keys(
    tmp_path, text, environ, flags
):
    (found,) = problems_of(tmp_path, text, environ, flags)
    assert "is above" not in found


def test_a_stronger_layer_makes_known_what_a_mistake_left_unknown(tmp_path):
    text = f"{SMALL}connect_bytes_max = 'x'"
    found = problems_of(tmp_path, text, flags={"limits.connect_bytes_max": "16KiB"})
    assert ["is above" in problem for problem in found] == [False, True]


def test_overruled_value_is_checked_all_the_same(tmp_path):
    found = problems_of(tmp_path, "data = 5", {}, {"data": "fine"})
    assert found == ["file p.toml line 1: data: must be text in quotes, not 5"]


def test_contradiction_is_placed_where_the_value_that_won_was_given(tmp_path):
    variable = "PENSTOCK_LIMITS_CONNECT_BYTES_MAX"
    found = problems_of(tmp_path, "limits.connect_bytes_max = '2KiB'", {variable: "1MiB"})
    assert found[0].startswith(f"environment {variable}: limits.connect_bytes_max: is above")


def test_very_long_value_is_cut_in_the_message(tmp_path):
    (found,) = problems_of(tmp_path, f"log.level = '{'x' * 1000}'")
    assert len(found) < 200


def test_missing_file_is_said_to_be_missing():
    with pytest.raises(ConfigError, match=r"^file nowhere\.toml: cannot be read: No such file"):
        load("nowhere.toml", {}, {})


def test_message_of_the_error_holds_every_problem(tmp_path):
    with pytest.raises(ConfigProblemsError) as caught:
        load(None, {"PENSTOCK_A": "", "PENSTOCK_B": ""}, {})
    assert str(caught.value).count("unknown option") == 2
