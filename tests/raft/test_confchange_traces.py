"""etcd's traces of configuration changes, to the letter."""

import pytest

from penstock.raft.confchange import Changer, ConfChangeError
from penstock.raft.tracker import Tracker
from penstock.raft.types import ConfChangeKind
from tests.raft.datadriven import directives, trace_files

KINDS = {
    "v": ConfChangeKind.ADD_NODE,
    "l": ConfChangeKind.ADD_LEARNER,
    "r": ConfChangeKind.REMOVE_NODE,
    "u": ConfChangeKind.UPDATE_NODE,
}


def answer(directive, tracker, last_index):
    changer = Changer(tracker, last_index)
    steps = [(KINDS[word[0]], int(word[1:])) for word in directive.text.split()]
    try:
        match directive.command:
            case "simple":
                changed = changer.simple(steps)
            case "enter-joint":
                changed = changer.enter_joint(directive.flag("autoleave"), steps)
            case "leave-joint":
                changed = changer.leave_joint()
    except ConfChangeError as error:
        return f"{error}\n"
    tracker.config, tracker.progress = changed
    progress = "".join(f"{node}: {progress}\n" for node, progress in tracker.visit())
    return f"{tracker.config}\n{progress}"


@pytest.mark.parametrize("path", trace_files("confchange/testdata"))
def test_configurations_change_as_in_the_trace(path):
    tracker = Tracker(10)
    # Each command is taken one index later, so that ``next`` shows when a node joined.
    for last_index, directive in enumerate(directives(path)):
        assert answer(directive, tracker, last_index) == directive.expected, directive.place
