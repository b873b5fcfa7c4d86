"""Nodes that would come to another state, or serve clients otherwise, have another digest."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from penstock.config import digest
from penstock.config.digest import DIGEST_BYTES, differing, settings_digest
from penstock.config.schema import Config


def changed(section: str, **values: Any) -> Config:
    config = Config()
    part = msgspec.structs.replace(getattr(config, section), **values)
    return msgspec.structs.replace(config, **{section: part})


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("limits", {"inflight_max": 7}),
        ("limits", {"queue_messages_max": 7}),
        ("limits", {"queue_full": "drop_newest"}),
        ("limits", {"retained_max": 7}),
        ("limits", {"session_expiry_s": 7}),
        ("journal", {"capture": False}),
        ("journal", {"capture_exclude": ("a/#",)}),
        ("retention", {"age_s_max": 7}),
        ("signing", {"window_s": 7}),
    ],
)
def test_what_must_be_alike_changes_the_digest(section, values):
    assert settings_digest(changed(section, **values)) != settings_digest(Config())


@pytest.mark.parametrize(
    ("section", "values"),
    [("limits", {"clients_max": 7}), ("journal", {"map_bytes_initial": 1 << 30})],
)
def test_what_may_differ_does_not(section, values):
    assert settings_digest(changed(section, **values)) == settings_digest(Config())


def test_addresses_and_names_of_nodes_are_their_own():
    other = msgspec.structs.replace(Config(), data="elsewhere", listen=("127.0.0.1:9",))
    assert settings_digest(other) == settings_digest(Config())


def test_another_version_of_the_state_is_another_digest(monkeypatch):
    before = settings_digest(Config())
    monkeypatch.setattr(digest, "STATE_VERSION", digest.STATE_VERSION + 1)
    assert settings_digest(Config()) != before


def test_every_process_has_the_same():
    program = (
        "from penstock.config.digest import settings_digest\n"
        "from penstock.config.schema import Config\n"
        "print(settings_digest(Config()).hex())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    expected = settings_digest(Config())
    assert done.stdout.decode().strip() == expected.hex()
    assert len(expected) == DIGEST_BYTES


def test_the_settings_in_which_two_nodes_differ_are_named(monkeypatch):
    own = settings_digest(Config())
    other = msgspec.structs.replace(
        changed("limits", inflight_max=7, stage_expiry_s=7),
        retention=changed("retention", age_s_max=7).retention,
    )
    named = ("limits.inflight_max", "limits.stage_expiry_s", "retention")
    assert differing(own, settings_digest(other)) == named
    assert differing(own, own) == differing(own, b"") == ()
    monkeypatch.setattr(digest, "STATE_VERSION", 9)
    assert differing(own, settings_digest(other)) == ("the version of Penstock",)
    assert differing(own, own[:-4]) == ("the version of Penstock",)
