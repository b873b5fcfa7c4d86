"""The queue protocol: on the wire, each message has its length in front, u32 big-endian.

===============  =================================================================================
``queue.proto``  the messages
``_generated``   what the protocol buffer compiler made of it
===============  =================================================================================
"""
