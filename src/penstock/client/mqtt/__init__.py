"""The blocking client of MQTT 5 and 3.1.1.

===================  ===========================================================================
``session``          protocol state: what to send, what happened; no socket, no clock
``keep_alive``       when to ping, and when to give up; time is a parameter
``client``           a socket and a clock around the two: :class:`Client`
``connect_request``  what a client asks for when it connects
``properties``       what MQTT 5 says about a message: :class:`PublishProperties`
``server_limits``    what the broker announces that it accepts
``refusals``         reason codes in words, as errors
``responses``        the answers to requests
``login``            logging in by SCRAM
``url``              ``mqtt://``, ``mqtts://``, ``ws://`` and ``wss://``
===================  ===========================================================================
"""
