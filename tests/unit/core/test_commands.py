"""Every command can be journaled: no two have the same tag."""

from typing import get_args

from penstock.core.commands import Event, Swept, from_event, to_event


def test_no_two_commands_have_the_same_tag():
    tags = [kind.__struct_config__.tag for kind in get_args(Event)]
    assert len(set(tags)) == len(tags)


def test_a_command_is_read_as_it_was_written():
    swept = Swept(b"t", b"g", 7)
    assert from_event(to_event(swept)) == swept
