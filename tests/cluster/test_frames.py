"""What nodes say to each other survives the way, and nothing else is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.frames import (
    Answer,
    AnswerKind,
    ChangeKind,
    ChangeRefused,
    ChangeRequest,
    Forward,
    ForwardRefused,
    Frame,
    LiveMessages,
    Member,
    MemberRemoved,
    Question,
    RaftFrame,
    RefusalReason,
    Welcome,
    decode_frame,
    encode_frame,
    is_bulk,
)
from penstock.errors import RemoteProtocolError
from penstock.raft.types import (
    ConfState,
    EntryKind,
    MessageKind,
    RaftEntry,
    RaftMessage,
    SnapshotMeta,
)

APPEND = RaftMessage(
    MessageKind.APPEND,
    to=2,
    sender=1,
    term=3,
    entries=(RaftEntry(3, 7, b"x"), RaftEntry(3, 8, b"", EntryKind.CONF_CHANGE_V2)),
)
FRAMES: list[Frame] = [
    RaftFrame(APPEND, now_ms=12),
    RaftFrame(RaftMessage(MessageKind.HEARTBEAT, to=2, sender=1, context=b"c")),
    RaftFrame(RaftMessage(MessageKind.SNAPSHOT, snapshot=SnapshotMeta(7, 3, ConfState((1, 2))))),
    Forward(9, 1, b"batch", term=3),
    ForwardRefused(9, 1, RefusalReason.LEADERSHIP_LOST),
    LiveMessages(b"a/b", (b"1", b"2")),
    LiveMessages(b"a/b", (b"1",), ((b"unit", b"bar"),), 1_700_000_000_000, 0x200),
    ChangeRequest(1, ChangeKind.ADD, Member(4, "a:1", "a:2")),
    ChangeRefused(1, "no", "wait"),
    MemberRemoved(12),
    Question(3, b"who is there"),
    Answer(3, AnswerKind.ANSWER, b"me"),
    Answer(4, AnswerKind.BUSY),
    Welcome(bytes(16), (Member(1, "a:1"),), (Member(1, "a:1"), Member(2, "b:1"))),
]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_comes_back_as_it_was(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame)) == frame


@given(st.binary(max_size=64))
def test_bytes_that_are_no_frame_are_refused_and_raise_nothing_else(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except RemoteProtocolError:
        return
    assert decode_frame(encode_frame(frame)) == frame


@given(st.sampled_from(FRAMES), st.data())
def test_a_frame_that_was_cut_is_refused(frame: Frame, data: st.DataObject) -> None:
    whole = encode_frame(frame)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(RemoteProtocolError):
        decode_frame(whole[:end])


def test_only_what_may_be_large_travels_in_bulk() -> None:
    assert [is_bulk(frame) for frame in FRAMES] == [
        True,
        False,
        True,
        True,
        False,
        True,
        True,
        False,
        False,
        False,
        True,
        True,
        True,
        False,
    ]
