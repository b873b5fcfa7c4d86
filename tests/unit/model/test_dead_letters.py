"""Names of topics with dead letters."""

import pytest

from penstock.model.dead_letters import dead_letter_topic, origin
from penstock.model.topic import topic_fault


def test_ordinary_names_stand_as_they_are():
    assert dead_letter_topic(b"mail/out", b"send-1.a_b~c") == b"$dlq/mail/out/send-1.a_b~c"


@pytest.mark.parametrize(
    "group", [b"g", b"a/b", b"+", b"#", b"a b", b"\xff\0", "größe".encode(), b"%2F", b""]
)
def test_a_name_leads_back_to_its_topic_and_group_and_is_one_that_can_be_read(group):
    letters = dead_letter_topic(b"a/b", group)
    assert origin(letters) == (b"a/b", group)
    assert not topic_fault(letters, 1_024, 32)


def test_no_two_groups_share_their_dead_letters():
    assert dead_letter_topic(b"a", b"b/c") != dead_letter_topic(b"a/b", b"c")
