from penstock.wire.resp.events import RespColumns as RespColumns
from penstock.wire.resp.events import RespCommand

def set_command_class(command: type[RespCommand]) -> None: ...
def read_command(
    data: bytes,
    position: int,
    arguments_max: int,
    bulk_bytes_max: int,
    command_bytes_max: int,
    in_columns: bool,
) -> tuple[RespColumns | list[bytes] | None, int, int]: ...
