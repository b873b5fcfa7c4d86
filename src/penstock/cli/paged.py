"""Lists of the API, page by page, up to what the user wants to see."""

from typing import Final, NamedTuple

import click

from penstock.cli.admin_client import AdminClient, Document

PAGE: Final = 1_000  # items that the broker gives at once, at the most

limit_option = click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Maximum number.",
)


class FirstPage(NamedTuple):
    """The beginning of a list."""

    items: list[Document]
    has_more: bool
    incomplete: list[Document]

    @property
    def document(self) -> Document:
        return {"items": self.items, "more": self.has_more, "incomplete": self.incomplete}

    def text(self, table: str) -> str:
        """The table, and what is missing in it."""
        lines = [table]
        if self.has_more:
            lines.append("... and more; --limit shows them")
        lines += [f"without node {one['node']} ({one['reason']})" for one in self.incomplete]
        return "\n".join(lines)


def first_page(broker: AdminClient, path: str, limit: int, **query: object) -> FirstPage:
    """Ask for pages until there are ``limit`` items, or no more."""
    items: list[Document] = []
    cursor: str | None = None
    while True:
        wanted = min(PAGE, limit - len(items))
        page = broker.get(path, limit=wanted, cursor=cursor, **query)
        items += page["items"]
        cursor = page["next"]
        if cursor is None or len(items) >= limit:
            return FirstPage(items, cursor is not None, page["incomplete"])


def every(broker: AdminClient, path: str, **query: object) -> list[Document]:
    """All items of a list, as of now (``AdminClient.current``)."""
    items: list[Document] = []
    cursor: str | None = None
    while True:
        page = broker.current(path, limit=PAGE, cursor=cursor, **query)
        items += page["items"]
        cursor = page["next"]
        if cursor is None:
            return items


def all_named(broker: AdminClient, path: str, field: str, name: str) -> list[Document]:
    """The items of a list that have exactly this name. Of those with a prefix, they come first."""
    page = first_page(broker, path, PAGE, prefix=name or None)
    return [one for one in page.items if one[field] == name]
