"""What a plan says about the rights of users."""

import pytest

from penstock.access.plans import make_plan
from penstock.trust.book import AccessBook, put
from penstock.trust.rows import Role, User

SECRET = "deny read plant/+/secret"


def book_of(*rules):
    book = AccessBook().preview([put(Role("wall", rules=rules)), put(User("ann", roles=("wall",)))])
    assert isinstance(book, AccessBook)
    return book


def planned(before, after):
    plan = make_plan(book_of(*before), book_of(*after), [])
    return [[one[1:] for one in differences] for differences in (plan.losses, plan.gains)]


@pytest.mark.parametrize(
    ("wide", "narrow", "topic_filter", "lost", "gained"),
    [
        (["allow read a/#"], [], "a/#", ("all", "none"), ("none", "all")),
        (["allow read a/#"], ["allow read a/b"], "a/#", ("all", "some"), ("some", "all")),
        (
            ["allow read plant/#", SECRET],
            ["allow read plant/+/level", SECRET],
            *("plant/#", ("some", "less"), ("some", "more")),
        ),
        (
            ["allow read #", SECRET],
            ["allow read plant/#", SECRET],
            *("#", ("some", "less"), ("some", "more")),
        ),
    ],
)
def test_narrower_rules_are_a_loss_and_wider_ones_a_gain(wide, narrow, topic_filter, lost, gained):
    assert planned(wide, narrow) == [[("read", topic_filter, *lost)], []]
    assert planned(narrow, wide) == [[], [("read", topic_filter, *gained)]]


def test_rights_that_depend_on_the_client_id_are_compared():
    rule = "allow publish dev/%u/%c/up"
    assert planned([], [rule]) == [[], [("publish", "dev/ann/%c/up", "none", "all")]]
    assert planned([rule], []) == [[("publish", "dev/ann/%c/up", "all", "none")], []]


def test_another_wording_of_the_same_rules_is_no_difference():
    once = ["allow read,work plant/#", SECRET]
    twice = ["allow read plant/#", SECRET, "allow work plant/#"]
    assert planned(once, twice) == [[], []]
