"""The documents of the repository become the pages of the site."""

import re
from pathlib import Path

import pytest
from website.build import FOREIGN_STANDIN, WORKER_STANDIN, keep_inside
from website.prepare import INDEX, PROJECT_PAGES, navigation, place, prepare, rewrite, sections

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("page", "link", "becomes", "linked"),
    [
        ("docs/start/a.md", "[b](../concepts/b.md#c)", "[b](../concepts/b.md#c)", "concepts/b.md"),
        ("docs/start/a.md", "[x](../../examples/x.py)", "[x](../source/examples/x.py.txt)", None),
        ("docs/start/a.md", "[x](../../examples)", "[x](../source/examples/index.md)", None),
        ("docs/README.md", "[x](../CONTRIBUTING.md)", "[x](project/contributing.md)", None),
        ("CONTRIBUTING.md", "[x](docs/start/a.md)", "[x](../start/a.md)", None),
        ("docs/start/a.md", "[here](#below)", "[here](#below)", None),
        ("docs/start/a.md", "[out](https://example.org/)", "[out](https://example.org/)", None),
    ],
)
def test_links_lead_to_the_same_things_on_the_site(page, link, becomes, linked):
    text, found = rewrite(page, link)
    assert text == becomes
    if linked:
        assert found == {f"docs/{linked}"}


def test_code_is_left_as_it_is():
    page = "```\n[a](../../b.py)\ntext\n* no list\n```\n"
    assert rewrite("docs/start/a.md", page) == (page, set())


def test_a_list_after_a_paragraph_begins_with_an_empty_line():
    assert rewrite("docs/a.md", "Text:\n* one\n* two\n")[0] == "Text:\n\n* one\n* two\n"


def test_the_navigation_is_that_of_the_index():
    index = "# Documentation\n\n## New\n\n* [First](start/a.md): text, [more](start/b.md)\n"
    assert navigation(index) == [
        {"Home": "index.md"},
        {"New": [{"First": "start/a.md"}, {"More": "start/b.md"}]},
    ]


def test_the_index_forgets_no_page():
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    index = sections((ROOT / INDEX).read_text(encoding="utf-8"))
    assert {page for section in index for _title, page in section.pages} >= pages - {INDEX}


def test_every_link_between_pages_of_the_site_has_a_target(tmp_path):
    prepare(ROOT, tmp_path)
    assert (tmp_path / place(INDEX)).is_file()
    assert all((tmp_path / place(page)).is_file() for page in PROJECT_PAGES)
    missing = [
        f"{page.relative_to(tmp_path)}: {target}"
        for page in tmp_path.rglob("*.md")
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s#]+)", page.read_text(encoding="utf-8"))
        if "source/" in target and not (page.parent / target).exists()
    ]
    assert not missing


def test_pages_load_nothing_from_elsewhere(tmp_path):
    (tmp_path / "assets/javascripts").mkdir(parents=True)
    page = tmp_path / "a" / "b.html"
    page.parent.mkdir()
    page.write_text(f'<script src="{FOREIGN_STANDIN}"></script>')
    assert keep_inside(tmp_path) == []
    assert page.read_text() == f'<script src="../{WORKER_STANDIN}"></script>'
    page.write_text('<img src="http://example.org/a.png">')
    assert keep_inside(tmp_path) == ["a/b.html"]
