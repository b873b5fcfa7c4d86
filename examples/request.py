"""Request and response by MQTT 5: a service that adds numbers, and a client that asks it.

    penstock serve &
    python examples/request.py serve &
    python examples/request.py ask 1 2 3.5       # prints: 6.5

The client's request names a topic of its own for the answer, and data by which it recognises the
answer; ``request`` and ``reply`` take care of both. Several services share the work: each message
of ``$share/adders/...`` goes to one of them.
"""

import argparse

from penstock.client import Delivery, PublishProperties, connect

TOPIC = "services/add"


def added(request: Delivery) -> bytes:
    """Return the answer to a request; an error is an answer, too: somebody waits for it."""
    try:
        numbers = [float(word) for word in request.payload.split()]
    except ValueError:
        return b"error: these are not numbers"
    return b"%g" % sum(numbers)


def main() -> None:
    """Serve or ask, as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="mqtt://127.0.0.1:1883")
    roles = parser.add_subparsers(dest="role", required=True)
    roles.add_parser("serve")
    roles.add_parser("ask").add_argument("number", nargs="+")
    options = parser.parse_args()
    with connect(options.url) as client:
        if options.role == "serve":
            client.subscribe([(f"$share/adders/{TOPIC}", 1)])
            print("serving", flush=True)
            for request in client.messages():
                client.reply(request, added(request))
        else:
            text = PublishProperties(expiry_s=10, payload_format=1)
            question = " ".join(options.number).encode()
            answer = client.request(TOPIC, question, timeout_s=10, properties=text)
            print(answer.payload.decode())


if __name__ == "__main__":
    main()
