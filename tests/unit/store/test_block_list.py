"""What a list of blocks remembers of topics is bounded, however many blocks there are."""

from penstock.store.batch import Batch
from penstock.store.blocks import registry
from penstock.store.blocks.registry import BlockList, Damage

TOPICS = 50


def test_less_is_remembered_of_topics_where_there_are_many_blocks(open_store, monkeypatch):
    store = open_store()
    batch = Batch()
    for number in range(TOPICS):
        batch.append(b"t/%d" % number, [b"1"], 1_000, 1)
    batch.checkpoint = store.next_index
    store.commit(batch)
    store.fold()
    [block] = store._blocks.current.blocks
    monkeypatch.setattr(registry, "PLACES_REMEMBERED_MAX", 100)
    for count, remembered_max in ((1, TOPICS), (20, 5), (1_000, 1)):
        found = BlockList(Damage(), (block,) * count)
        for topic_id in range(1, TOPICS + 1):
            assert len(found.with_topic(topic_id)) == count
        assert 0 < len(found._found) <= remembered_max
