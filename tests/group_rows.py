"""Rows of groups, as a checkpoint writes them and a start reads them."""

from penstock.core.group_row import encode_chunk, encode_group
from penstock.core.groups import Group, Groups

Rows = dict[tuple[str, bytes], bytes]


class RowsOnDisk:
    """What the tables of groups hold."""

    def __init__(self) -> None:
        self.rows: Rows = {}

    def write(self, groups: Groups, key: bytes, index: int) -> None:
        """Write the rows of one group that changed, as one commit does."""
        for table, row_key, row in groups.rows(key, index):
            if row is None:
                self.rows.pop((table, row_key), None)
            else:
                self.rows[table, row_key] = row

    def load(self) -> Groups:
        """The groups that a start finds."""
        groups = Groups()
        for (table, key), row in sorted(self.rows.items()):
            if table == "groups":
                groups.load(key, row)
            else:
                groups.load_chunk(key, row)
        groups.end_loading()
        return groups


def state_of(group: Group | None) -> object:
    """Everything durable of a group, to be compared."""
    if group is None:
        return None
    applied = group.applied
    row = encode_group(group, 0)
    group.applied = applied
    chunks = {offset >> 10 for offset in group.pending}
    return row, {chunk: encode_chunk(group, chunk) for chunk in chunks}
