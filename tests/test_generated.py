"""Generated pages are checked in, and must match the output of their generators."""

import pytest

from tests.generate import PAGES, ROOT


@pytest.mark.parametrize(("path", "text"), PAGES, ids=[path for path, _ in PAGES])
def test_page_is_up_to_date(path, text):
    page = ROOT / path
    assert page.exists(), f"{path} is missing; run: make docs"
    assert page.read_text(encoding="utf-8") == text(), f"{path} is out of date; run: make docs"
