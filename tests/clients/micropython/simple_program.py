"""A program written for umqtt.simple; the import is what changed."""

import sys

from penstock.simple import MQTTClient


def main(port, topic):
    client = MQTTClient("device-of-" + topic, "127.0.0.1", port)
    client.set_callback(lambda name, message: print(name.decode(), message.decode()))
    client.connect()
    client.publish(topic.encode(), b"one")
    client.subscribe(topic.encode())
    client.wait_msg()
    client.check_msg()
    client.publish(topic, "two", qos=1)
    client.wait_msg()
    client.ping()
    client.disconnect()


main(int(sys.argv[1]), sys.argv[2])
