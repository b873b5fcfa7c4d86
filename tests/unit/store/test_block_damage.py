"""A damaged block: every flipped byte is noticed and named, and costs its part alone."""

import random
from itertools import pairwise

import pytest
import zstandard
from tests.fuzz.blocks import read_all, resealed, with_part

from penstock.errors import StorageDamaged, StorageError, StorageForeign
from penstock.model.message import Extras, Signature
from penstock.store.batch import Batch
from penstock.store.blocks.block import Block, PartCache
from penstock.store.blocks.fold import Fold, fold, summary_of
from penstock.store.blocks.format import FOOTER_BYTES, HEADER_BYTES, RAW, ZSTD
from penstock.store.entry import Placement, decode, encode

NUMBER = 0xAB
NAME = f"{NUMBER:016x}"


def entries(topics=12, number=3):
    for index in range(1, number + 1):
        batch = Batch()
        for topic in range(topics):
            batch.append(b"topic/%d" % topic, [b"payload %d" % index * 3], 1_000 + index, 1)
        places = [Placement(topic, index - 1) for topic in range(topics)]
        yield decode(encode(batch, index, 1 + topics * (index - 1), places))


def content(codec=ZSTD, part_bytes=300):
    plan = Fold(NUMBER, 1, 37, 1, 3, codec=codec, part_bytes=part_bytes)
    return b"".join(fold(entries(), plan))


def flipped(data, place):
    found = bytearray(data)
    found[place] ^= 0x40
    return bytes(found)


def faults(data):
    try:
        return list(Block(data).verify())
    except (StorageDamaged, StorageForeign) as error:
        return [error]


@pytest.mark.parametrize("codec", [RAW, ZSTD])
def test_no_flipped_byte_goes_unnoticed(codec):
    data = content(codec)
    assert faults(data) == []
    for place in range(len(data)):
        assert faults(flipped(data, place)), place


@pytest.mark.parametrize("codec", [RAW, ZSTD])
def test_damage_is_named_and_costs_one_part(codec):
    data = content(codec)
    sound = Block(data)
    assert sound.part_count > 3
    starts = [*sound._directory.starts, sound._footer.directory.start]
    for part, (start, end) in enumerate(pairwise(starts)):
        block = Block(flipped(data, (start + end) // 2))
        (fault,) = block.verify()
        assert NAME in fault.message
        assert f"part {part} " in fault.message
        groups = list(block.groups())
        names = [_name(block, group.number) for group in groups]
        assert 0 < names.count(None) < len(groups) // 2
        for group, name in zip(groups, names, strict=True):
            assert name in {None, b"topic/%d" % group.topic_id}


def _name(block, group):
    try:
        entry, number = block.opened(group)
    except StorageDamaged:
        return None
    return entry.group(number).name


def test_damage_of_directory_order_and_footer_is_named():
    data = content()
    footer = Block(data)._footer
    directory = Block(flipped(data, footer.directory.start + 9))
    with pytest.raises(StorageDamaged, match=f"{NAME}: the directory"):
        directory.find(3)
    order = Block(flipped(data, footer.order.start + 9))
    with pytest.raises(StorageDamaged, match=f"{NAME}: the order"):
        order.located(1)
    assert order.find(3) >= 0  # the topics do not need it
    with pytest.raises(StorageDamaged, match="footer"):
        Block(flipped(data, len(data) - FOOTER_BYTES + 3))
    with pytest.raises(StorageDamaged, match="header"):
        Block(flipped(data, HEADER_BYTES - 1))


@pytest.mark.parametrize("kept", [0, 1, HEADER_BYTES, FOOTER_BYTES + HEADER_BYTES, -1, -8])
def test_a_block_that_was_cut_off_is_damaged(kept):
    data = content()
    with pytest.raises(StorageDamaged):
        Block(data[:kept])


def test_a_block_of_a_later_version_is_refused_not_misread():
    data = bytearray(content())
    place = len(data) - 16
    data[place] += 1
    with pytest.raises(StorageForeign, match="version 2"):
        summary_of(resealed(bytes(data)))


def test_a_frame_that_claims_more_than_the_directory_allows_is_not_decompressed():
    """The size is compared first: the memory that a frame asks for is never allocated."""
    huge = zstandard.ZstdCompressor().compress(bytes(1 << 26))
    data = with_part(content(part_bytes=1 << 20), huge, raw_bytes=1 << 10)
    block = Block(data)
    with pytest.raises(StorageDamaged, match="size that was noted"):
        block.opened(0)


def test_the_cache_stays_within_its_bytes_and_serves_what_was_used_last():
    data = content(RAW)
    entry_bytes = len(Block(data).opened(0)[0].buffer)
    cache = PartCache(3 * entry_bytes)
    block = Block(data, cache)
    numbers = range(block.summary.group_count)
    opened = {number: block.opened(number)[0] for number in numbers}
    assert cache.bytes <= 3 * entry_bytes
    last = opened[numbers[-1]]
    assert block.opened(numbers[-1])[0] is last
    assert block.opened(0)[0] is not opened[0]
    cache.forget(NUMBER)
    assert cache.bytes == 0
    assert block.opened(numbers[-1])[0] is not last


def test_two_blocks_with_one_number_do_not_share_parts():
    """A number is used again only after a crash; what was cached must not be believed then."""
    cache = PartCache()
    first = Block(content(), cache)
    plan = Fold(NUMBER, 1, 37, 1, 3, cuts={0: 1})
    second = Block(b"".join(fold(entries(), plan)), cache)
    assert first.opened(0)[0] is not second.opened(0)[0]


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (Fold(1, 2, 37, 1, 3), "begins before"),
        (Fold(1, 1, 36, 1, 3), "comes after"),
        (Fold(1, 1, 2**33, 1, 3), "2\\^32"),
    ],
)
def test_a_fold_that_was_planned_wrongly_is_refused(plan, fault):
    with pytest.raises(StorageError, match=fault):
        list(fold(entries(), plan))


def test_an_offset_that_occurs_twice_is_damage():
    twice = [*entries(number=1), *entries(number=1)]
    with pytest.raises(StorageDamaged, match="twice"):
        list(fold(twice, Fold(1, 1, 37, 1, 3)))


def test_entries_that_do_not_ascend_are_sorted():
    plan = Fold(NUMBER, 1, 37, 1, 3, part_bytes=300)
    backwards = b"".join(fold(list(entries())[::-1], plan))
    assert backwards == content()


def adorned(part_bytes):
    """A block with every kind of column, uncompressed, so that a change goes deep."""
    signature = Signature(1, 7, b"s" * 64)
    batch = Batch()
    for number in range(8):
        extras = Extras(((b"n", b"v" * number),), signature if number % 3 else None, number, 6)
        flags = 0x301 if number % 2 else 1
        batch.append(b"t%d" % (number % 3), [b"p%d" % number, b""], 1_000, flags, [extras, None])
    for topic in (b"t0", b"t1"):
        batch.add_producer_run(topic, 1, 3, b"producer", 3)
    entry = decode(encode(batch, 1, 1, [Placement(topic, 0) for topic in range(3)]))
    return b"".join(fold([entry], Fold(1, 1, 17, 1, 1, codec=RAW, part_bytes=part_bytes)))


NUMBERS = (b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\1\0\0\0")


@pytest.mark.parametrize("part_bytes", [300, 1 << 18])
def test_wrong_numbers_under_right_checksums_are_damage_and_nothing_else(part_bytes):
    chance, sound, refused = random.Random(part_bytes), adorned(part_bytes), 0
    read_all(resealed(sound))
    for _ in range(400):
        data = bytearray(sound)
        place = chance.randrange(len(data) // 4) * 4
        data[place : place + 4] = chance.choice(NUMBERS)
        try:
            read_all(resealed(bytes(data)))
        except StorageError:
            refused += 1
    assert refused > 100
