"""Every way in which a batch is refused is told to clients and counted under its own name."""

import pytest

from penstock.errors import LeadershipLost, NoQuorum, StorageDamaged, StorageError, StorageFull
from penstock.net.refusals import drop_of, reason_of


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (StorageFull("no room"), "storage_full"),
        (StorageError("broken"), "storage_failed"),
        (StorageDamaged("torn"), "storage_failed"),
        (NoQuorum("too few"), "no_quorum"),
        (LeadershipLost("another"), "leadership_lost"),
    ],
)
def test_refused_batch_is_told_and_counted_by_the_same_word(error, word):
    assert reason_of(error).value == word
    assert drop_of(reason_of(error)).value == word
