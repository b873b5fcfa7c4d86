"""Checks clients/vectors.json in a machine: frames both ways, cut anywhere, faults, errors.

The path of the file is the argument. It prints what differs, and how much was checked.
"""

import asyncio
import json
import sys

from penstock.wire import ClientError, Frames, frame, meaning

AGAIN, NOTICE, FAREWELL, FINAL = 1, 2, 3, 4


class Bytes:
    """A reader that gives so many bytes at a time."""

    def __init__(self, data, step):
        self.data = data
        self.step = step

    async def read(self, count):
        part = self.data[: min(self.step, count)]
        self.data = self.data[len(part) :]
        return part


async def frames_of(data, step, size=2048):
    frames = Frames(size)
    frames.reset(Bytes(data, step))
    found = []
    try:
        while True:
            while frames.poll():
                found.append((frames.command, frames.sequence, frames.topic, frames.payload))
            await frames.fill()
    except EOFError:
        return found


def wanted(vector):
    topic, payload = bytes.fromhex(vector["topic"]), bytes.fromhex(vector["payload"])
    return vector["command"], int(vector["sequence"]), topic, payload


async def is_right(vector):
    data, fields = bytes.fromhex(vector["hex"]), wanted(vector)
    if vector["from"] == "client":
        made = frame(*fields)
        return data[: len(made)] == made  # a trailer may follow
    for step in (1, 7, 4096):
        if await frames_of(data, step) != [fields]:
            return False
    return True


def kind_of(error):
    if error["kind"] == "notice":
        return NOTICE
    if error["kind"] == "farewell":
        return FINAL if error["do"] == "stop" else FAREWELL
    return AGAIN if error["do"] == "sign again" else 0


async def is_recognised(fault):
    try:
        await frames_of(bytes.fromhex(fault["hex"]), 4096)
    except ClientError:
        return True
    return False


async def main():
    with open(sys.argv[1]) as file:
        vectors = json.load(file)
    by_name = {vector["name"]: vector for vector in vectors["frames"]}
    for name, vector in by_name.items():
        if not await is_right(vector):
            print("frame:", name)
    for stream in vectors["streams"]:
        for step in (1, 13, 4096):
            found = await frames_of(bytes.fromhex(stream["hex"]), step)
            if found != [wanted(by_name[name]) for name in stream["frames"]]:
                print("stream:", stream["name"])
    for cut in vectors["cut"]:
        if await frames_of(bytes.fromhex(cut["hex"]), 4096):
            print("cut:", cut["frame"], cut["bytes"])
    for error in vectors["errors"]:
        if meaning(error["text"]) != kind_of(error):
            print("error:", error["code"])
    for fault in vectors["faults"]:
        if fault["name"] in ("another version", "HTTP") and not await is_recognised(fault):
            print("fault:", fault["name"])
    print("frames:", len(by_name), "errors:", len(vectors["errors"]))


asyncio.run(main())
