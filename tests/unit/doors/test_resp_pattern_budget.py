"""The budget of patterns is shared fairly: nobody uses it up for the others."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from penstock.doors.resp import pattern_budget
from penstock.doors.resp.pattern_budget import PatternBudget, account_of
from penstock.net.origin import Approach, Origin


@pytest.fixture
def budget(monkeypatch):
    """A budget of 1,000 of which 10 are small."""
    monkeypatch.setattr(pattern_budget, "PATTERN_COST_MAX", 1_000)
    monkeypatch.setattr(pattern_budget, "SMALL_COST", 10)
    return Shared()


class Shared:
    """A budget with routes that count what is in use, as the broker's do."""

    def __init__(self):
        self.routes = SimpleNamespace(pattern_cost=0)
        self.budget = PatternBudget(self.routes)
        self.in_use = {}

    def fill(self, account, prefix=""):
        """Take one pattern after the other until one is refused; return how many."""
        for number in range(2_000):
            pattern = f"{prefix}{account}{number}*".encode()
            if self.budget.fault(account, [pattern]):
                return number
            self.take(account, pattern)
        raise AssertionError("nothing was refused")

    def take(self, account, pattern):
        self.budget.take(account, pattern)
        self.in_use[pattern] = self.in_use.get(pattern, 0) + 1
        self.routes.pattern_cost = len(self.in_use)

    def give_back(self, account, pattern):
        self.budget.give_back(account, pattern)
        self.in_use[pattern] -= 1
        if not self.in_use[pattern]:
            del self.in_use[pattern]
        self.routes.pattern_cost = len(self.in_use)


def test_the_first_may_have_half_and_each_next_one_half_of_the_rest(budget):
    assert [budget.fill(account) for account in "abcd"] == [500, 250, 125, 62]


def test_a_few_patterns_are_allowed_until_nothing_is_left(budget):
    for account in "abcdef":
        budget.fill(account)
    others = [budget.fill(f"user-{number}") for number in range(3)]
    assert others[0] == 10
    assert sum(others) + 500 + 250 + 125 + 62 <= 1_000
    assert budget.routes.pattern_cost <= 1_000


def test_all_together_never_exceed_the_budget(budget):
    for number in range(200):
        budget.fill(f"account-{number}")
    assert budget.routes.pattern_cost == 1_000


def test_a_pattern_on_many_connections_of_a_user_counts_once(budget):
    for _ in range(5_000):
        assert not budget.budget.fault("ann", [b"news.*"])
        budget.take("ann", b"news.*")
    assert budget.fill("ann") == 499


def test_what_was_given_back_may_be_taken_again_but_not_while_another_connection_has_it(budget):
    budget.take("ann", b"a*")
    budget.take("ann", b"a*")
    budget.give_back("ann", b"a*")
    assert budget.fill("ann") == 499
    budget.give_back("ann", b"a*")
    assert not budget.budget.fault("ann", [b"b*"])


def test_costly_patterns_count_as_more(budget):
    long = b"*" + b"?" * 600 + b"*"
    assert "others need room" in budget.budget.fault("ann", [long])
    assert not budget.budget.fault("ann", [b"*" + b"?" * 400 + b"*"])


def test_an_account_is_a_user_or_an_address_or_a_local_connection():
    one, other = object(), object()
    local, remote = Origin(0.0, "127.0.0.1:1", Approach(is_local=True)), Origin(0.0, "10.0.0.7:1")
    assert account_of("ann", local, one) == account_of("ann", remote, other) == "ann"
    assert account_of("", remote, one) == account_of("", replace(remote, peer="10.0.0.7:2"), other)
    assert account_of("", local, one) != account_of("", local, other)
    assert account_of("10.0.0.7", local, one) != account_of("", remote, one)
