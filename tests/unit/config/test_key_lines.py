"""Finding the line on which a key of a TOML file was set."""

from penstock.config.lines import key_lines

TEXT = '''\
# data = "not this one"
data = "x"
listen = [
  "a:1",  # [limits]
]
note = """
[limits]
clients_max = 1
"""
retention.messages_max = 5

[limits] # here
"clients_max" = 5
topic_bytes_max = 6
[[retention.rules]]
filter = "a"
[[retention.rules]]

filter = "b"
[log]
level = "info"
sys = {interval_s = 3}
'''


def test_every_way_to_write_a_key_is_found():
    assert key_lines(TEXT) == {
        "data": 2,
        "listen": 3,
        "note": 6,
        "retention": 10,
        "retention.messages_max": 10,
        "limits": 12,
        "limits.clients_max": 13,
        "limits.topic_bytes_max": 14,
        "retention.rules": 15,
        "retention.rules[0]": 15,
        "retention.rules[0].filter": 16,
        "retention.rules[1]": 17,
        "retention.rules[1].filter": 19,
        "log": 20,
        "log.level": 21,
        "log.sys": 22,
        "log.sys.interval_s": 22,
    }


def test_line_endings_of_other_systems_do_not_shift_the_count():
    assert key_lines("a = 1\r\n\r\nb = 2\r\n") == {"a": 1, "b": 3}
