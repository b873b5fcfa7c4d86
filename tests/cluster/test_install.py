"""A received store becomes ours, at once or not at all, and never at the price of a promise."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from penstock.cluster.install import LogState, install, is_wanted, read_log_state
from penstock.errors import StorageDamaged, StorageError, StorageForeign, StorageLocked
from penstock.store.blocks.files import BlockFiles
from penstock.store.directory import DATA_NAME, READY_NAME, snapshot_path
from penstock.store.lmdb_store import LmdbStore
from penstock.store.verify import verify
from tests.cluster.snapshot_bench import LogMaker, make_log, payloads_in, record_of


def receive(source, data):
    """Put a copy of a closed store where a snapshot arrives."""
    draft = snapshot_path(data)
    draft.mkdir(exist_ok=True)
    store = LmdbStore(source)
    with store.copy() as copy:
        copy.write_to(draft)
    store.close()


def test_the_others_state_becomes_ours_and_we_stay_who_we_are(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 1, 3, 3])
    own = LogMaker(follower, record_of(2)).append(1).vote(2, 3)
    own.close()
    receive(leader, follower)
    assert install(follower, 2)
    state = read_log_state(follower, 2)
    assert (state.record.node_id, state.committed, state.last_index) == (2, 4, 4)
    assert (state.record.term, state.record.vote) == (3, 0)
    assert payloads_in(follower) == payloads_in(leader)
    assert not snapshot_path(follower).exists()
    assert verify(follower).is_sound


def test_the_others_blocks_replace_ours_though_they_have_the_same_numbers(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1] * 9, has_blocks=True)
    make_log(follower, 2, [1] * 6, has_blocks=True)
    theirs, ours = BlockFiles(leader).numbers(), BlockFiles(follower).numbers()
    assert len(theirs) > len(ours) > 2
    receive(leader, follower)
    assert install(follower, 2)
    assert BlockFiles(follower).numbers() == theirs
    assert payloads_in(follower) == payloads_in(leader)
    assert verify(follower).is_sound


def test_a_store_without_blocks_replaces_one_with_blocks(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1] * 9)
    make_log(follower, 2, [1] * 6, has_blocks=True)
    receive(leader, follower)
    assert install(follower, 2)
    assert not BlockFiles(follower).numbers()
    assert payloads_in(follower) == payloads_in(leader)


def test_a_store_that_lacks_a_block_replaces_nothing(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1] * 9, has_blocks=True)
    make_log(follower, 2, [1] * 6, has_blocks=True)
    kept = payloads_in(follower)
    receive(leader, follower)
    BlockFiles(snapshot_path(follower)).remove(BlockFiles(leader).numbers()[1])
    with pytest.raises(StorageDamaged, match=r"lacks block .* and 0 more"):
        install(follower, 2)
    assert payloads_in(follower) == kept


def test_a_directory_in_the_middle_of_a_switch_is_not_taken_for_a_damaged_one(tmp_path):
    make_log(tmp_path, 1, [1, 1])
    (tmp_path / READY_NAME).mkdir()
    with pytest.raises(StorageError, match="was interrupted"):
        verify(tmp_path)
    LmdbStore(tmp_path).close()
    assert verify(tmp_path).is_sound


@pytest.mark.parametrize(("term", "vote"), [(3, 2), (9, 3)])
def test_a_vote_is_never_forgotten(tmp_path, term, vote):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 3])
    own = LogMaker(follower, record_of(2)).vote(term, vote)
    own.close()
    receive(leader, follower)
    assert install(follower, 2)
    record = read_log_state(follower, 2).record
    assert (record.term, record.vote) == (term, vote)


def test_a_new_node_takes_over_everything_but_its_id(tmp_path):
    leader, new = tmp_path / "leader", tmp_path / "new"
    make_log(leader, 1, [1, 2])
    LmdbStore(new).close()
    receive(leader, new)
    assert install(new, 7)
    record = read_log_state(new, 7).record
    assert record.node_id == 7
    assert record.cluster_id == read_log_state(leader, 1).record.cluster_id
    assert payloads_in(new) == payloads_in(leader)


def test_the_end_of_the_senders_log_comes_along_and_stays_uncommitted(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 1], tail=[2, 2])
    make_log(follower, 2, [1])
    receive(leader, follower)
    assert install(follower, 2)
    state = read_log_state(follower, 2)
    assert (state.committed, state.last_index) == (2, 4)
    assert payloads_in(follower) == payloads_in(leader)


@pytest.mark.parametrize(
    ("sent", "committed", "tail", "is_wanted"),
    [
        ([1, 1, 1], [1], [], True),
        ([1, 1, 1], [1], [1, 1], False),
        ([1, 1, 1], [1], [1, 1, 1, 1], False),
        ([1, 1, 3], [1], [1, 2, 2, 2], True),
        ([1, 1, 3], [1], [1], True),
        ([1, 1], [1, 1], [], False),
        ([1], [1, 1], [], False),
    ],
    ids=[
        "it goes further",
        "our log has its last entry",
        "our log has its last entry, and more that was counted perhaps",
        "our log has another entry there",
        "our log ends before it",
        "we have committed as much",
        "we have committed more",
    ],
)
def test_a_log_with_promises_is_not_replaced(tmp_path, sent, committed, tail, is_wanted):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, sent)
    make_log(follower, 2, committed, tail)
    before = read_log_state(follower, 2)
    receive(leader, follower)
    assert install(follower, 2) is is_wanted
    after = read_log_state(follower, 2)
    assert after.last_index == (len(sent) if is_wanted else before.last_index)
    assert not snapshot_path(follower).exists()


def test_the_store_of_another_cluster_is_refused_and_ours_stays(tmp_path):
    other, follower = tmp_path / "other", tmp_path / "follower"
    maker = LogMaker(other, record_of(1, b"another cluster!"))
    maker.append(1)
    maker.append(1)
    maker.close()
    make_log(follower, 2, [1])
    kept = payloads_in(follower)
    receive(other, follower)
    with pytest.raises(StorageForeign, match="another cluster"):
        install(follower, 2)
    assert payloads_in(follower) == kept


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "rubbish"])
def test_what_can_not_be_opened_replaces_nothing(tmp_path, damage):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 1, 1], size=1000)
    make_log(follower, 2, [1])
    kept = payloads_in(follower)
    receive(leader, follower)
    file = snapshot_path(follower) / DATA_NAME
    if damage == "missing":
        file.unlink()
    elif damage == "rubbish":
        file.write_bytes(os.urandom(file.stat().st_size))
    else:
        os.truncate(file, 0 if damage == "empty" else file.stat().st_size // 2)
    with pytest.raises(StorageError):
        install(follower, 2)
    assert payloads_in(follower) == kept


def test_an_entry_that_is_damaged_inside_is_found_before_the_switch(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 1, 1])
    make_log(follower, 2, [1])
    kept = payloads_in(follower)
    receive(leader, follower)
    file = snapshot_path(follower) / DATA_NAME
    content = bytearray(file.read_bytes())
    content[content.index(payloads_in(leader)[-1]) + 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(StorageDamaged):
        install(follower, 2)
    assert payloads_in(follower) == kept


def test_a_snapshot_from_before_our_log_begins_is_not_wanted():
    """Of entries that we have compacted away we do not know the terms any more."""
    own, sent = record_of(2), record_of(1)
    own.terms, sent.terms = [(5, 3)], [(1, 1)]
    assert not is_wanted(LogState(own, 6, 8), LogState(sent, 3, 3))


def test_nothing_is_switched_under_a_broker_that_runs(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 1])
    make_log(follower, 2, [1])
    store = LmdbStore(follower)
    receive(leader, follower)
    with pytest.raises(StorageLocked):
        install(follower, 2)
    store.close()


def test_a_start_throws_away_what_was_not_switched_to(tmp_path):
    leader, follower = tmp_path / "leader", tmp_path / "follower"
    make_log(leader, 1, [1, 1])
    make_log(follower, 2, [1])
    kept = payloads_in(follower)
    receive(leader, follower)
    assert payloads_in(follower) == kept
    assert not snapshot_path(follower).exists()


CRASH = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from penstock.cluster.install import install

    STEPS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree",
             "shutil.copyfile"}

    def die_at(step):
        def hook(event, arguments):
            nonlocal step
            if event in STEPS and "follower" in str(arguments[0]):
                step -= 1
                if step < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)

    for step, data in enumerate(sys.argv[1:]):
        child = os.fork()
        if not child:
            die_at(step)
            install(Path(data), 2)
            os._exit(0)
        print(os.waitpid(child, 0)[1], file=sys.stderr)
""")
STEPS_MAX = 90


@pytest.mark.parametrize("has_blocks", [False, True])
def test_a_crash_at_any_step_leaves_the_old_store_or_the_new_one(tmp_path, has_blocks):
    """Killed before each thing that it does to a file, from the first to the last."""
    leader, origin = tmp_path / "leader", tmp_path / "origin"
    make_log(leader, 1, [1] * 7, has_blocks=has_blocks)
    make_log(origin, 2, [1] * 5, has_blocks=has_blocks)
    old, new = payloads_in(origin), payloads_in(leader)
    receive(leader, origin)
    followers = [tmp_path / f"follower-{step}" for step in range(STEPS_MAX)]
    for follower in followers:
        shutil.copytree(origin, follower)
    command = [sys.executable, "-c", CRASH, *map(str, followers)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    statuses = [int(line) for line in printed.split()]
    crashes = statuses.index(0)
    assert statuses == [signal.SIGKILL] * crashes + [0] * (STEPS_MAX - crashes)
    found = [payloads_in(follower) for follower in followers]
    assert all(payloads in (old, new) for payloads in found)
    is_new = [payloads == new for payloads in found]
    assert is_new == sorted(is_new)  # there is one moment, and it is final
    assert is_new.count(False) >= 5
    assert is_new[:crashes].count(True) >= 3
    assert not any(snapshot_path(follower).exists() for follower in followers)
    assert not any((follower / READY_NAME).exists() for follower in followers)
    if has_blocks:
        assert {len(BlockFiles(follower).numbers()) for follower in followers} == {2, 3}
