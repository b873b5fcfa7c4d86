"""What commands that ask the API have in common."""

import click
import pytest
from click.testing import CliRunner

from penstock.cli.admin_client import AdminClient
from penstock.cli.inputs import confirm, duration, in_lines, yes_option
from penstock.cli.output import counted
from penstock.cli.paged import every
from penstock.config.address import Address
from penstock.errors import PenstockError


class Pages(AdminClient):
    """A broker whose answers are given."""

    def __init__(self, *pages):
        super().__init__(Address("127.0.0.1", 1), "")
        self.pages_left = list(pages)
        self.asked = []

    def _request(self, method, path, body):
        self.asked.append((method, path, body))
        return self.pages_left.pop(0)


def test_a_list_is_read_to_its_end_page_by_page():
    pages = Pages(
        {"items": [{"topic": "a"}, {"topic": "b c"}], "next": "b c&"},
        {"items": [{"topic": "d"}], "next": None},
    )
    found = every(pages, "queues", prefix="x", topic=None)
    assert [queue["topic"] for queue in found] == ["a", "b c", "d"]
    assert [path for _, path, _ in pages.asked] == [
        "queues?current=true&limit=1000&prefix=x",
        "queues?current=true&limit=1000&cursor=b+c%26&prefix=x",
    ]


def test_who_asks_for_what_this_node_has_does_not_wait_for_the_others():
    pages = Pages({"items": [], "next": None})
    pages.is_stale_fine = True
    assert every(pages, "queues") == []
    assert pages.asked == [("GET", "queues?limit=1000", None)]


def test_names_in_a_query_are_escaped_and_what_is_none_is_left_out():
    pages = Pages({}, {})
    pages.delete("groups", topic="a/b&c", group="ä", offset=None)
    pages.put("groups", topic="a", start=None, seek=0)
    assert pages.asked == [
        ("DELETE", "groups?topic=a%2Fb%26c&group=%C3%A4", None),
        ("PUT", "groups", b'{"topic":"a","seek":0}'),
    ]


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [(1, "day", "1 day"), (89, "day", "89 days"), (2, "entry", "2 entries"), (0, "row", "0 rows")],
)
def test_counted_things_have_their_plural(count, noun, said):
    assert counted(count, noun) == said


# ── Asking first


@click.command()
@yes_option
def deleting():
    confirm("Delete it?")
    click.echo("deleted")


def test_what_cannot_be_undone_is_done_when_the_user_says_so():
    assert CliRunner().invoke(deleting, input="y\n").stdout == "deleted\n"


def test_whoever_is_sure_is_not_asked():
    result = CliRunner().invoke(deleting, ["--yes"])
    assert result.output == "deleted\n"


@pytest.mark.parametrize(("said", "why"), [("n\n", "nothing was changed"), ("", "no confirmation")])
def test_nothing_is_done_when_the_user_says_no_or_nothing(said, why):
    result = CliRunner().invoke(deleting, input=said)
    assert isinstance(result.exception, PenstockError)
    assert why in str(result.exception)
    assert "deleted" not in result.stdout


def test_after_an_unanswered_question_a_new_line_begins():
    assert CliRunner().invoke(deleting, input="").stderr == "Delete it? [y/N]: \n"


# ── What is taken


@pytest.mark.parametrize(("text", "seconds"), [("90d", 7_776_000), ("500ms", 0.5), ("0", 0)])
def test_durations_have_units(text, seconds):
    assert duration(None, None, text) == seconds
    assert duration(None, None, None) is None


@pytest.mark.parametrize("text", ["90", "-5s", "soon", "7 weeks", "", "1.5"])
def test_what_is_no_duration_is_refused_by_one_rule_in_one_sentence(text):
    with pytest.raises(click.BadParameter) as caught:
        duration(None, None, text)
    rule = "must be a number with a unit, as in 500ms, 10s, 15m, 24h or 7d"
    assert str(caught.value) == f"{text!r} {rule}"


@pytest.mark.parametrize(
    ("chunks", "batches"),
    [
        ([], []),
        ([b"a\nb\n"], [[b"a", b"b"]]),
        ([b"a\nb", b"c\n", b"d"], [[b"a"], [b"bc"], [], [b"d"]]),
        ([b"\n\n"], [[b"", b""]]),
    ],
)
def test_lines_are_given_on_as_soon_as_they_are_complete(chunks, batches):
    assert list(in_lines(chunks)) == batches
