"""Pages of clients have everybody who stayed exactly once, of one node or of many."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from penstock.api.clients import Place, choose
from penstock.api.merging import NodePage, merged

PLACES = st.sets(
    st.tuples(
        st.sampled_from([b"", b"a", b"a!", b"b", b"\xff"]), st.sampled_from(["", "1:1", "1:2"])
    ),
    max_size=12,
)


class Connection(NamedTuple):
    name: bytes
    peer: str


def page_of(here, after, limit):
    """What a node answers; clients without an address are away."""
    connected = [Connection(name, peer) for name, peer in here if peer]
    away = [name for name, peer in here if not peer]
    found = choose(connected, away, after, limit + 1, lambda _chosen: True)
    places = [chosen.place for chosen in found]
    return NodePage(places[:limit], len(places) > limit)


@given(PLACES, st.data())
def test_pages_of_a_changing_list_have_each_that_stayed_once(here, data):
    seen, after, stayed = [], None, set(here)
    while True:
        page = page_of(here, after, data.draw(st.integers(1, 4)))
        seen += page.items
        if not page.is_cut:
            break
        after = page.items[-1]
        here = data.draw(PLACES) | (here - data.draw(PLACES))
        stayed &= here
    assert seen == sorted(set(seen))
    assert {Place(*place) for place in stayed} <= set(seen)


@given(st.lists(PLACES, min_size=1, max_size=4), st.integers(1, 5), st.data())
def test_pages_of_many_nodes_have_each_client_once_in_order(nodes, limit, data):
    seen, after = [], None
    while True:
        sizes = [data.draw(st.integers(1, limit)) for _ in nodes]  # cut by bytes, some of them
        pages = [page_of(node, after, size) for node, size in zip(nodes, sizes, strict=True)]
        kept, has_more = merged(pages, limit, lambda place: place)
        assert len(kept) <= limit
        seen += kept
        if not has_more:
            break
        after = kept[-1]
    assert seen == sorted({Place(*place) for node in nodes for place in node})
