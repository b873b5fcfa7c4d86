"""Every refusal of a batch has its own error and counter."""

import pytest

from penstock.commit.refusals import drop_of, reason_of
from penstock.doors.resp.faults import not_stored
from penstock.errors import (
    ClusterError,
    LeadershipLost,
    NoQuorum,
    StorageDamaged,
    StorageError,
    StorageFull,
)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (StorageFull("no room"), "storage_full"),
        (StorageError("broken"), "storage_failed"),
        (StorageDamaged("torn"), "storage_failed"),
        (NoQuorum("too few"), "no_quorum"),
        (LeadershipLost("another"), "leadership_lost"),
        (ClusterError("removed"), "no_quorum"),
    ],
)
def test_refused_batch_is_told_and_counted_by_the_same_word(error, word):
    assert reason_of(error).value == word
    assert drop_of(reason_of(error)).value == word


def test_resp_client_is_not_told_that_nothing_was_stored_where_nobody_knows():
    assert not_stored("storage_full") == "ERR storage_full: the disk refused, nothing was stored"
    assert "it may be stored or not" in not_stored("no_quorum")
    assert "disk" not in not_stored("no_quorum") + not_stored("leadership_lost")
