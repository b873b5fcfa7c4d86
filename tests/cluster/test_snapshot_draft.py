"""What a node has already is not sent to it again."""

import shutil

import pytest

from penstock.cluster.snapshot_draft import SnapshotDraft
from tests.cluster.courier import Source


@pytest.fixture
def own(tmp_path):
    """A store that came by a snapshot: it has the sender's blocks. And those blocks."""
    source = Source(tmp_path / "sender", blocks=3)
    summaries = [each.row.summary for each in source.store._blocks.current.blocks]
    source.close()
    shutil.copytree(tmp_path / "sender", tmp_path / "own")
    return tmp_path / "own", summaries


def test_blocks_of_our_own_store_are_linked(own):
    data, summaries = own
    draft = SnapshotDraft(data, "s1")
    assert draft.lacking(summaries) == []
    assert draft.blocks == len(summaries) > 1
    for summary in summaries:
        name = f"{summary.number:016x}.blk"
        assert (draft.path / "blocks" / name).samefile(data / "blocks" / name)


def test_a_block_of_our_own_that_only_has_the_number_is_asked_for(own):
    data, (first, *others) = own
    file = data / "blocks" / f"{first.number:016x}.blk"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    draft = SnapshotDraft(data, "s1")
    assert draft.lacking([first, *others]) == [first]
    assert file.exists(), "our own store may still need what it has"
