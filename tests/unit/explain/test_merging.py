"""One explanation of several nodes: nothing is lost, nothing told twice, who knows most speaks."""

from penstock.explain.explanation import Explanation, Fact, Receiver, Subject
from penstock.explain.fates import Certainty, Fate
from penstock.explain.merging import merged
from penstock.explain.message import receiver_lines

MESSAGE = Subject("message", topic="t", offset=1)
CLIENT = Subject("client", client_id="a")


def recorded(second, code, text, milliseconds=0):
    at = f"2026-01-31T14:00:{second:02d}.{milliseconds:03d}Z"
    return Fact(at, code, Certainty.RECORDED, text)


def about_message(*receivers, facts=()):
    first = min(receivers, key=lambda one: one.fate.value, default=None)
    fate = first.fate.value if first else Fate.NO_MATCH.value
    lines = [*facts, *receiver_lines(list(receivers))]
    return Explanation(MESSAGE, fate, "", list(receivers), len(receivers), lines)


def test_a_record_that_all_nodes_have_is_told_once_and_others_each():
    drop = "1 message gave way."
    one = Explanation(CLIENT, "away", "", facts=[recorded(1, "queue_full", drop)])
    two = Explanation(
        CLIENT,
        "away",
        "",
        facts=[recorded(1, "queue_full", drop, 900), recorded(9, "queue_full", drop)],
    )
    facts = merged(one, [two, two]).facts
    assert [fact.at[17:19] for fact in facts] == ["01", "09"]


def test_that_nothing_is_recorded_is_not_told_where_another_node_has_records():
    nothing = Fact(None, "events", Certainty.NOT_KEPT, "No event of it is recorded.")
    one = Explanation(CLIENT, "unknown", "Nothing is known.", facts=[nothing])
    two = Explanation(CLIENT, "kicked", "Kicked.", facts=[recorded(1, "kicked", "Ended.")])
    here = Explanation(CLIENT, "connected", "Connected.", facts=[nothing], rank=1)
    assert merged(one, [one]).facts == [nothing]
    assert merged(one, [two]).summary == "Kicked."
    assert merged(here, [two]).facts == two.facts


def test_the_node_with_the_connection_speaks_for_a_client():
    stale = Explanation(CLIENT, "kicked", "Away.", facts=[recorded(9, "kicked", "Ended.")])
    here = Explanation(CLIENT, "connected", "Connected.", rank=1)
    assert merged(stale, [here]).summary == merged(here, [stale]).summary == "Connected."


def test_receivers_of_all_nodes_are_told_once_each_by_who_recorded_their_fate():
    sent = Receiver("client", "a", Fate.DELIVERED, text="Sent.")
    dropped = Receiver("client", "a", Fate.DROPPED, text="Gave way.", certainty=Certainty.RECORDED)
    other = Receiver("client", "b", Fate.QUEUED, text="Waits.")
    for found in (
        merged(about_message(sent), [about_message(dropped), about_message(other)]),
        merged(about_message(other), [about_message(dropped), about_message(sent)]),
    ):
        assert found.receivers == [dropped, other]
        assert (found.fate, found.summary) == ("dropped", "a: gave way.")
        assert [fact.text for fact in found.facts] == ["a: Gave way.", "b: Waits."]
