"""Signs, verifies and hashes what lines of JSON ask; runs in each machine, without a broker."""

import asyncio
import json
import sys

from penstock.ed25519 import Pauses, SigningKey
from penstock.verify import is_valid

from penstock import sha512

sha512._native = None  # that of this machine is not what is tested


async def answer(asked):
    if "sha512" in asked:
        return (await sha512.sha512((bytes.fromhex(asked["sha512"]),), Pauses())).hex()
    if "sign" in asked:
        if "file" in asked:
            key = SigningKey.load(asked["file"])
        else:
            key = SigningKey(1, bytes.fromhex(asked["seed"]))
        signature = await key.sign((bytes.fromhex(asked["sign"]),))
        return {"public": key.public_key.hex(), "signature": signature.hex()}
    message, signature = bytes.fromhex(asked["verify"]), bytes.fromhex(asked["signature"])
    return await is_valid(bytes.fromhex(asked["public"]), (message[:1], message[1:]), signature)


async def main():
    for line in sys.stdin:
        print(json.dumps(await answer(json.loads(line))))


if __name__ == "__main__":
    asyncio.run(main())
