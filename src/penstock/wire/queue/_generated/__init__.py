r"""What the protocol buffer compiler makes of ``queue.proto``; not written by hand.

The compiler is that of protobuf 6.31, the oldest runtime that ``pyproject.toml`` allows: generated
code refuses to run with a runtime older than itself. It comes with ``grpcio-tools`` 1.73::

    python -m grpc_tools.protoc --python_out=src --pyi_out=src \
        -Ipenstock/wire/queue/_generated=src/penstock/wire/queue \
        penstock/wire/queue/_generated/queue.proto

The path in front of the file's name is not decoration. All generated code of a process shares one
registry of file names, and others may well have a ``queue.proto`` of their own.
"""
