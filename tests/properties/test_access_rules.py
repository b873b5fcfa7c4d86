"""Access rules against a naive model: short, slow, obviously right."""

import re
from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.trust.rights import Coverage, NamedRule, Rights
from penstock.trust.rules import (
    ALL_ACTIONS,
    CLIENT_ACTIONS,
    TOPICLESS,
    Action,
    FilterSet,
    covers,
    overlaps,
    parse_rule,
)

WORDS = ("a", "b", "$x")
DEPTH = 3

# every topic of up to three levels; "z" stands for all words that no filter names, "" is a level
TOPICS = [
    "/".join(levels).encode()
    for depth in range(1, DEPTH + 2)
    for levels in product(("a", "b", "z", "$x", ""), repeat=depth)
    if levels != ("",)
]

levels = st.sampled_from([*WORDS, "+", "", "%u", "%c"])
plain_levels = st.sampled_from([*WORDS, "+", ""])


def filters(level):
    parts = st.lists(level, min_size=1, max_size=DEPTH)
    return st.tuples(parts, st.booleans()).map(_joined).filter(bool)


def _joined(drawn):
    parts, is_open = drawn
    return "/".join([*parts[: DEPTH - 1], "#"] if is_open else parts)


topics = st.sampled_from(TOPICS)
users = st.sampled_from(["", "a", "b", "ann"])
client_ids = st.sampled_from(["", "a", "b", "c-1", "a/b", "+", "#", "$x", "\0"])
topic_actions = st.lists(
    st.sampled_from([action for action in Action if action not in TOPICLESS]),
    min_size=1,
    max_size=3,
    unique=True,
)


@st.composite
def rules(draw):
    effect = draw(st.sampled_from(["allow", "allow", "deny"]))
    if draw(st.integers(0, 9)) == 0:
        return f"{effect} all"
    if draw(st.integers(0, 4)) == 0:
        return f"{effect} {draw(st.sampled_from(['monitor', 'admin', 'monitor,admin']))}"
    words = ",".join(action.word for action in draw(topic_actions))
    return f"{effect} {draw(st.sampled_from([words, words, 'all']))} {draw(filters(levels))}"


# ── the model ─────────────────────────────────────────────────────────────────────────────────


def naive_match(topic_filter, topic):
    """Section 4.7 of MQTT, as a regular expression."""
    if topic.startswith("$") and topic_filter[:1] in "+#":
        return False
    pattern = ""
    for number, level in enumerate(topic_filter.split("/")):
        if level == "#":
            pattern += "(/.*)?" if number else ".*"
            break
        pattern += ("/" if number else "") + ("[^/]*" if level == "+" else re.escape(level))
    return re.fullmatch(pattern, topic, re.DOTALL) is not None


def naive_rule_matches(text, topic, user, client_id):
    effect, _words, *rest = text.split(" ", 2)
    if not rest:
        return True
    values = {"%u": user, "%c": client_id}
    filled = []
    for number, level in enumerate(rest[0].split("/")):
        value = values.get(level)
        if value is None:
            filled.append(level)
        elif not value or set(value) & set("/+#\0"):
            if effect == "allow":
                return False
            filled.append("+")
        elif number == 0 and value.startswith("$") and effect == "allow":
            return False
        else:
            filled.append(value)
    return naive_match("/".join(filled), topic)


def naive_may(texts, action, topic, user, client_id):
    def is_meant(text):
        words, has_filter = text.split(" ")[1].split(","), text.count(" ") > 1
        if action in TOPICLESS:  # "all" of some topics is not that
            return action.word in words or (words == ["all"] and not has_filter)
        is_about = action.word in words or words == ["all"]
        return is_about and naive_rule_matches(text, topic, user, client_id)

    meant = [text.split(" ")[0] for text in texts if is_meant(text)]
    return "allow" in meant and "deny" not in meant


def rights(texts, user="", client_id=""):
    named = [NamedRule("role", number, parse_rule(text)) for number, text in enumerate(texts, 1)]
    return Rights(named, user, client_id)


# ── the claims ────────────────────────────────────────────────────────────────────────────────


@given(st.lists(rules(), max_size=8), st.sampled_from(list(Action)), topics, users, client_ids)
@example(["allow subscribe %c/#"], Action.SUBSCRIBE, b"$x/a", "", "$x")
@example(["allow all a/#"], Action.ADMIN, b"", "", "")
@example(["allow all", "deny publish %c/#"], Action.PUBLISH, b"a/b", "ann", "+")
def test_rules_decide_as_the_model_does(texts, action, topic, user, client_id):
    found = rights(texts, user, client_id)
    expected = naive_may(texts, action, topic.decode(), user, client_id)
    assert found.may(action, topic) is expected
    assert found.may(action, topic) is expected  # from the cache
    verdict = found.explain(action, topic)
    assert verdict.is_allowed is expected
    if action is Action.PUBLISH:
        assert found.may_publish(topic) is expected
        assert found.publishable is None or (topic in found.publishable) is expected


@given(st.lists(rules(), min_size=1, max_size=8), topics, users)
def test_the_rule_that_is_named_as_deciding_decides(texts, topic, user):
    verdict = rights(texts, user).explain(Action.READ, topic)
    if verdict.decided_by is None:
        assert not naive_may(texts, Action.READ, topic.decode(), user, "")
    else:
        decisive = texts[verdict.decided_by.number - 1]
        assert decisive.startswith("allow" if verdict.is_allowed else "deny")
        assert naive_rule_matches(decisive, topic.decode(), user, "")


@given(st.lists(rules(), max_size=8), st.randoms())
def test_the_order_of_rules_means_nothing(texts, random):
    shuffled = list(texts)
    random.shuffle(shuffled)
    one, other = rights(texts, "a", "b"), rights(shuffled, "a", "b")
    for action in Action:
        assert [one.may(action, t) for t in TOPICS[:60]] == [
            other.may(action, t) for t in TOPICS[:60]
        ]


@given(st.lists(filters(plain_levels).map(str.encode), max_size=8), topics)
def test_a_set_of_filters_matches_what_one_of_them_matches(many, topic):
    expected = any(naive_match(one.decode(), topic.decode()) for one in many)
    assert FilterSet(many).matches(topic) is expected


@given(st.lists(filters(plain_levels) | st.just(""), max_size=6), filters(plain_levels))
@example(["#"], "$x/#")
@example(["+/#"], "#")
@example(["a/#"], "a")
@example(["$x/a"], "+/a")
def test_a_set_of_filters_covers_and_overlaps_as_its_filters_do(many, topic_filter):
    encoded, wanted = [one.encode() for one in many], topic_filter.encode()
    found = FilterSet(encoded)
    assert found.covers(wanted) == any(covers(one, wanted) for one in encoded)
    assert found.overlaps(wanted) == any(overlaps(one, wanted) for one in encoded)


@given(filters(plain_levels), filters(plain_levels))
@example("+/#", "#")
@example("#", "+/#")
@example("a/#", "a")
@example("+", "$x")
def test_covers_and_overlaps_agree_with_all_topics_one_by_one(one, other):
    every = [*TOPICS, b""]  # which is no topic, but filters may match it
    wide = {topic for topic in every if naive_match(one, topic.decode())}
    narrow = {topic for topic in every if naive_match(other, topic.decode())}
    assert covers(one.encode(), other.encode()) is (narrow <= wide)
    assert overlaps(one.encode(), other.encode()) is bool(wide & narrow)


@given(st.lists(rules(), max_size=6), filters(plain_levels))
@example(["allow subscribe #", "deny subscribe +/#"], "#")
def test_coverage_never_promises_more_nor_refuses_what_is_allowed(texts, topic_filter):
    found = rights(texts, "a", "b")
    judged = [
        found.may(Action.SUBSCRIBE, topic)
        for topic in TOPICS
        if naive_match(topic_filter, topic.decode())
    ]
    coverage = found.coverage(Action.SUBSCRIBE, topic_filter.encode())
    if coverage is Coverage.ALL:
        assert all(judged)
    if coverage is Coverage.NONE:
        assert not any(judged)


@given(rules())
def test_a_rule_is_read_as_it_is_written(text):
    rule = parse_rule(text)
    assert parse_rule(rule.text) == rule


def test_actions_without_topics_and_with_them_are_all_actions():
    assert CLIENT_ACTIONS | Action.MANAGE | TOPICLESS == ALL_ACTIONS
