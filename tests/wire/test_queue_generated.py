"""The generated code says what ``queue.proto`` says, and runs wherever Penstock may."""

import re
import tomllib
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

from penstock.wire.queue._generated import queue_pb2

ROOT = Path(__file__).parents[2]
PACKAGE = "penstock/wire/queue"


def test_the_generated_code_is_that_of_the_messages(tmp_path):
    """Whatever compiler is installed: all make the same description of a file."""
    compiled = tmp_path / "compiled"
    folders = f"-I{PACKAGE}/_generated={ROOT}/src/{PACKAGE}"
    code = protoc.main(
        ["protoc", folders, f"--descriptor_set_out={compiled}", f"{PACKAGE}/_generated/queue.proto"]
    )
    assert code == 0
    (expected,) = FileDescriptorSet.FromString(compiled.read_bytes()).file
    found = FileDescriptorSet().file.add()
    queue_pb2.DESCRIPTOR.CopyToProto(found)
    expected.ClearField("source_code_info")
    for message in (*expected.message_type, *found.message_type):
        for field in message.field:
            field.ClearField("json_name")  # written down by compilers only
    assert found == expected


def test_the_generated_code_runs_with_the_oldest_runtime_allowed():
    """A runtime refuses code that was made by a newer compiler."""
    generated = Path(queue_pb2.__file__).read_text("utf-8")
    made_by = re.search(r"^# Protobuf Python Version: (\d+)\.(\d+)\.", generated, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (needed,) = [name for name in project["dependencies"] if name.startswith("protobuf")]
    oldest = re.match(r"protobuf>=(\d+)\.(\d+)", needed)
    assert made_by.groups() == oldest.groups()
