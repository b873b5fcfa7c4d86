"""The blocking client of MQTT 3.1.1.

==============  ================================================================================
``session``     protocol state: what to send, what happened; no socket, no clock
``keep_alive``  when to ping, and when to give up; time is a parameter
``client``      a socket and a clock around the two: :class:`Client`
==============  ================================================================================
"""
