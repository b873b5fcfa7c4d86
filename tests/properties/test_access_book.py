"""The access book: the same after a replay from any checkpoint, and never without its admin."""

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.broker import Broker
from penstock.core.commands import AccessChanged, from_event, to_event
from penstock.core.effects import AccessApplied, Effects, Outcome
from penstock.core.tables import Moment, tables_of
from penstock.obs.counters import Counters
from penstock.trust.book import AccessBook, Change, put, removed
from penstock.trust.rows import Ban, Role, Token, User
from penstock.trust.rules import Action

NAMES = st.sampled_from(["ann", "bob", "eve"])
ROLES = st.sampled_from(["admin", "client", "anonymous", "r1", "r2", "r3", "missing"])
role_lists = st.lists(ROLES, max_size=2, unique=True).map(tuple)

rows = st.one_of(
    st.builds(
        User,
        NAMES,
        role_lists,
        secrets=st.sampled_from([(), (b"s" * 32,)]),
        is_disabled=st.booleans(),
    ),
    st.builds(
        Role,
        st.sampled_from(["r1", "r2", "r3", "client"]),
        st.sampled_from([("allow read #",), ("deny admin",), ("allow nothing",), ("allow all",)]),
        role_lists,
    ),
    st.builds(Token, st.just("token123"), NAMES, st.just(bytes(32)), role_lists),
    st.builds(Ban, st.sampled_from(["user:ann", "address:10.0.0.0/8", "nonsense"])),
)
changes = st.tuples(rows, st.booleans()).map(lambda one: put(one[0]) if one[1] else removed(one[0]))


@st.composite
def entries(draw):
    """Entries of a journal, each with some changes of the book."""
    made = []
    for _ in range(draw(st.integers(1, 8))):
        commands = [
            (draw(st.lists(changes, min_size=1, max_size=3)), draw(st.integers(-1, 8)))
            for _ in range(draw(st.integers(1, 2)))
        ]
        made.append([AccessChanged(list(c), "ann", "http", "", 1, e) for c, e in commands])
    return made


class Told:
    def done(self, value):
        self.value = value

    def refused(self, reason, detail=""):
        raise AssertionError(reason)


def applied(broker, journal, first=1):
    """Apply entries; return the answers."""
    answers = []
    for index, commands in enumerate(journal, first):
        broker.begin(index, index)
        for command in commands:
            effects = Effects()
            broker.apply(from_event(to_event(command)), Told(), effects)
            answers += [one.value for one in effects.controls if isinstance(one, Outcome)]
    return answers


def access_table(broker):
    return next(table for table in tables_of(broker) if table.name == "access")


def state(broker):
    return dict(access_table(broker).state())


ADMIN = User("ann", ("admin",), secrets=(b"s" * 32,))
TWICE = [
    [AccessChanged([put(User("ann"))], "", "", "", 1), AccessChanged([put(User("bob"))], "", "", "", 1)]
]  # fmt: skip


@given(entries(), st.data())
@example(TWICE, None)
def test_rows_and_the_entries_after_them_give_the_same_book(journal, data):
    broker = Broker(Counters())
    cut = data.draw(st.integers(0, len(journal))) if data else 0
    mark = data.draw(st.integers(0, cut)) if data else 0
    applied(broker, journal[:cut])
    table = access_table(broker)
    table.begin_round()
    disk = {key: row for _, key, row in table.take(1, Moment(cut, mark))}
    applied(broker, journal[cut:], cut + 1)

    restored = Broker(Counters())
    written = [(key, row) for key, row in sorted(disk.items()) if row is not None]
    access_table(restored).load(lambda _name: written)
    restored.begin_recovery()
    applied(restored, journal[mark:], mark + 1)
    restored.settle_recovery()
    assert state(restored) == state(broker)
    assert restored.access.version == broker.access.version


@given(entries())
def test_a_book_with_an_administrator_keeps_one(journal):
    broker = Broker(Counters())
    had_admin = False
    for index, commands in enumerate(journal, 1):
        for command in commands:
            broker.begin(index, index)
            broker.apply(command, None, Effects())
            has_admin = any(
                user.secrets and not user.is_disabled and broker.access.is_admin(user.name)
                for user in broker.access.users.values()
            )
            assert has_admin or not had_admin
            had_admin = has_admin
            assert not broker.access.fault()


@given(entries())
def test_a_refused_change_changes_nothing_and_says_why(journal):
    broker = Broker(Counters())
    for index, commands in enumerate(journal, 1):
        for command in commands:
            broker.begin(index, index)
            before, effects = state(broker), Effects()
            broker.apply(command, Told(), effects)
            fault = next(one.value for one in effects.controls if isinstance(one, Outcome))
            is_applied = any(isinstance(one, AccessApplied) for one in effects.controls)
            assert is_applied is not bool(fault)
            if fault:
                assert state(broker) == before
            if command.expected not in (-1, int(before[b"version"])):
                assert "at the same time" in fault


@given(st.lists(st.tuples(*[st.sampled_from(["r0", "r1", "r2", "r3", "r4", "r5"])] * 2)))
@example([("r0", "r0")])
@example([("r0", "r1"), ("r1", "r0")])
def test_roles_that_include_each_other_in_a_circle_or_too_deep_are_refused(edges):
    included = {f"r{number}": set() for number in range(6)}
    for holder, other in edges:
        included[holder].add(other)

    def depth(name, above=()):
        if name in above:
            return 99
        return 1 + max((depth(one, (*above, name)) for one in included[name]), default=0)

    roles = [put(Role(name, (), tuple(sorted(below)))) for name, below in included.items()]
    is_bad = any(depth(name) > 4 for name in included)
    assert bool(AccessBook().apply(roles, -1, 1)) is is_bad


def test_many_roles_that_include_all_others_are_judged_at_once():
    """Following every path would take 64 to the power of 4 steps, in every node of a cluster."""
    layers = [[f"l{layer}-{number}" for number in range(60)] for layer in range(4)]
    below = [*layers[1:], []]
    roles = [
        Role(name, (), tuple(under)) for layer, under in zip(layers, below, strict=True) for name in layer
    ]  # fmt: skip
    assert AccessBook().apply([put(role) for role in roles], -1, 1) == ""
    circle = put(Role("l3-0", (), ("l0-0",)))
    assert "deep" in AccessBook().apply([*map(put, roles), circle], -1, 1)


def test_verdicts_of_all_users_together_are_bounded(monkeypatch):
    monkeypatch.setattr("penstock.trust.book.VERDICTS_IN_ALL_MAX", 100)
    book = AccessBook()
    assert not book.apply([put(Role("own", ("allow publish %u/#",))), put(ADMIN)], -1, 1)
    holders = [book.rights_of_roles(("own",), f"user{number}") for number in range(10)]
    for rights in holders:
        for number in range(30):
            rights.may(Action.PUBLISH, b"x/%d" % number)
            rights.may(Action.PUBLISH, b"long/" * 100 + b"%d" % number)
    cached = sum(len(one) for rights in holders for one in rights._verdicts.values())
    assert cached <= 100


def test_rows_that_cannot_be_read_are_refused_not_applied():
    """An exception would stop every node that replays the entry."""
    assert "unknown" in AccessBook().apply([Change("group", "g", b"")], -1, 1)
    assert "cannot be read" in AccessBook().apply([Change("user", "ann", b"\xff")], -1, 1)
