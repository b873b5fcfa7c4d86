"""Every key can be set by file, variable and flag, and the strongest of those given counts."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.config.bridge_options import BridgeOptions
from penstock.config.keys import KEYS, RULE_KEYS, ConfigKey
from penstock.config.load import load
from penstock.config.schema import Config, ListenerOptions, RetentionRule, SigningRule
from penstock.config.values import encode
from penstock.limits import KIB, MIB

NARROWER = {  # so that a drawn value agrees with the defaults of the keys it is compared with
    "cluster.node_id": (1, 65_535),
    "limits.connect_bytes_max": (KIB, 256 * KIB),
    "limits.packet_bytes_max": (16 * KIB, 8 * MIB),
    "limits.outbound_bytes_max": (256 * KIB, 64 * MIB),
}

words = st.text("ab/$ \"'\\\t\n\x7fé€😀", min_size=1, max_size=9).map(str.strip).filter(bool)
secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=20)
addresses = st.sampled_from(["127.0.0.1:0", "[::1]:0", "localhost:0", "127.0.0.1:99"])
lone_addresses = st.sampled_from(["127.0.0.1:98", "[::1]:98", "localhost:98"])

PEER_LISTEN = {"PENSTOCK_CLUSTER_PEER_LISTEN": "127.0.0.1:97"}
CERTIFICATE = {"PENSTOCK_TLS_CERT": "a", "PENSTOCK_TLS_KEY": "b"}
CLIENT_CA = CERTIFICATE | {"PENSTOCK_TLS_CLIENT_CA": "c"}
COMPANY = {  # variables without which a key would mean nothing, and be refused
    "cluster.node_id": PEER_LISTEN,
    "cluster.peer_listen": {"PENSTOCK_CLUSTER_NODE_ID": "1"},
    "cluster.advertise": PEER_LISTEN | {"PENSTOCK_CLUSTER_NODE_ID": "1"},
    "listeners": CLIENT_CA,
    "tls.cert": {"PENSTOCK_TLS_KEY": "b"},
    "tls.key": {"PENSTOCK_TLS_CERT": "a"},
    "tls.client_ca": CERTIFICATE,
    "tls.client_certs": CLIENT_CA,
    "tls.crl": CLIENT_CA,
    "cluster.advertise_peer": PEER_LISTEN | {"PENSTOCK_CLUSTER_NODE_ID": "1"},
}


def numbers(key: ConfigKey):
    low, high = NARROWER.get(key.name, (key.low, key.high))
    if key.kind == "integer":
        return st.integers(low, high)
    return st.integers(int(low * 1000), int(high * 1000)).map(lambda ms: ms / 1000)


RULES = {
    "bridges": BridgeOptions,
    "listeners": ListenerOptions,
    "retention.rules": RetentionRule,
    "signing.rules": SigningRule,
}
origins = st.sampled_from(["https://app.example.com", "http://[::1]:8080", "null", "*"])
networks = st.sampled_from(["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"])


def rules(key: ConfigKey):
    leaves = {leaf: values_of(inner) for leaf, inner in RULE_KEYS[key.name].items()}
    if key.name == "listeners":  # some options make no sense without others
        leaves["address"] = st.integers(1, 65_535).map(lambda port: f"127.0.0.1:{port}")
        leaves |= {"proxy": st.just(True), "tls": st.sampled_from(["auto", "required"])}
    if key.name == "bridges":
        leaves["url"] = st.integers(1, 65_535).map(lambda port: f"mqtts://127.0.0.1:{port}")
        leaves |= dict.fromkeys(("local_prefix", "remote_prefix"), st.sampled_from(["", "a/"]))
        leaves |= {"user": st.just(""), "name": st.integers(1).map(lambda number: f"b{number}")}
    return st.builds(RULES[key.name], **leaves)


def identity(rule: BridgeOptions | ListenerOptions | RetentionRule | SigningRule) -> str:
    match rule:
        case BridgeOptions():
            return rule.name
        case ListenerOptions():
            return rule.address
        case _:
            return repr(rule)


def values_of(key: ConfigKey):
    match key.kind:
        case "boolean":
            return st.booleans()
        case "choice":
            return st.sampled_from(key.choices)
        case "choices":
            items = st.sampled_from(key.choices)
            return st.lists(items, min_size=1, unique=True).map(tuple)
        case "text" if key.name == "tracing.endpoint":
            return st.integers(1, 65_535).map(lambda port: f"http://localhost:{port}/v1/traces")
        case "text":
            texts = {
                "secret_file": st.just(""),
                "secret": secrets,
                "address": lone_addresses,
                "user": st.just("ann@x"),
            }
            return texts.get(key.form, words)
        case "list":
            items = {
                "address": addresses,
                "listener": addresses,
                "network": networks,
                "origin": origins,
            }.get(key.form, words)
            return st.lists(items, min_size=1, max_size=3, unique=True).map(tuple)
        case "rules":
            return st.lists(rules(key), max_size=2, unique_by=identity).map(tuple)
        case _:
            return numbers(key)


def as_text(key: ConfigKey, value) -> str:
    """Write a value for a variable or a flag: as in the file, without the file's quotes."""
    if key.kind in {"list", "choices"}:
        return ",".join(map(str, value))
    written = encode(key, value)
    return tomllib.loads(f"x = {written}")["x"] if written.startswith('"') else written


def as_file(key: ConfigKey, value) -> str:
    header = f"[{key.section}]\n" if key.section else ""
    return f"{header}{key.leaf} = {encode(key, value)}\n"


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_flag_beats_environment_beats_file_beats_default(key, data, tmp_path_factory):
    path, environ, flags = None, dict(COMPANY.get(key.name, {})), {}
    expected, source = key.default, "default"
    if data.draw(st.booleans() if key.name not in COMPANY else st.just(True), "in the file"):
        expected = data.draw(values_of(key))
        file = tmp_path_factory.getbasetemp() / f"{key.name}.toml"
        file.write_text(as_file(key, expected), encoding="utf-8")
        path = str(file)
        source = f"file {path} line {2 if key.section else 1}"
    if data.draw(st.booleans(), "in the environment"):
        expected, source = data.draw(values_of(key)), f"environment {key.environment}"
        environ[key.environment] = as_text(key, expected)
    if data.draw(st.booleans(), "by flag"):
        expected, source = data.draw(values_of(key)), "flag"
        flags[key.name] = data.draw(st.sampled_from([expected, as_text(key, expected)]))
        if key.kind == "rules":
            flags[key.name] = as_text(key, expected)
    loaded = load(path, environ, flags)
    assert loaded.value(key.name) == expected
    assert loaded.sources.pop(key.name) == source
    company = {f"environment {variable}" for variable in COMPANY.get(key.name, {})}
    assert set(loaded.sources.values()) == {"default"} | company


def test_nothing_given_is_the_default_configuration():
    loaded = load(None, {"PATH": "/bin", "PENSTOCKING": "no concern of ours"}, {"data": None})
    assert loaded.config == Config()
    assert loaded.file is None


def test_the_variable_of_the_speed_is_no_option_of_the_broker():
    assert load(None, {"PENSTOCK_SPEED": "interpreted"}, {}).config == load(None, {}, {}).config


def test_file_may_be_named_by_the_environment_and_the_argument_is_stronger(tmp_path):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text("data = 'first'")
    second.write_text("data = 'second'")
    environ = {"PENSTOCK_CONFIG": str(first)}
    assert load(None, environ, {}).config.data == "first"
    assert load(None, environ, {}).file == str(first)
    assert load(str(second), environ, {}).config.data == "second"


def test_rule_takes_what_it_leaves_out_from_its_section():
    """Even where the section's value comes from another layer than the rule."""
    environ = {"PENSTOCK_RETENTION_RULES": "[{filter = 'a/#', bytes_max = '1KiB'}]"}
    loaded = load(None, environ, {"retention.messages_max": 9, "retention.bytes_max": 5})
    assert loaded.config.retention.rules == (
        RetentionRule(filter="a/#", messages_max=9, age_s_max=604_800, bytes_max=1024),
    )


def test_listening_beyond_this_machine_is_allowed_once_it_is_asked_for():
    loaded = load(None, {"PENSTOCK_ALLOW_ANONYMOUS": "yes"}, {"listen": "0.0.0.0:1883"})
    assert loaded.config.listen == ("0.0.0.0:1883",)


def test_ephemeral_ports_are_never_the_same_address():
    flags = {"listen": "127.0.0.1:0,127.0.0.1:0", "http_listen": "127.0.0.1:0"}
    assert len(load(None, {}, flags).config.listen) == 2


def test_empty_list_turns_the_further_listeners_off():
    assert load(None, {"PENSTOCK_HTTP_LISTEN": ""}, {}).config.http_listen == ()
