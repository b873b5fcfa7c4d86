"""The page of claims has every test, and is among the generated ones."""

from tests.conformance_queue.page import HERE, claims, markdown
from tests.generate import PAGES


def test_the_page_has_every_claim():
    page = markdown()
    for path in HERE.glob("test_*.py"):
        _, found = claims(path)
        assert found, path
        assert all(claim.says in page.lower() for claim in found)


def test_the_page_is_generated():
    assert ("docs/reference/queue-conformance.md", markdown) in PAGES
