"""Ed25519 keys and signatures: who may publish what, and the proof that they did.

Doors need one thing from here, the :class:`~penstock.trust.gate.Gate`. It asks, in this order:

1. :mod:`~penstock.trust.policy`: does this topic demand a signature, and of which versions?
2. :mod:`~penstock.trust.keys`: is the key known and in force, and is the signature
   (:mod:`~penstock.trust.signatures`) its own? And only then: may that key publish to this topic
   (:mod:`~penstock.trust.acl`)?
3. :mod:`~penstock.trust.replay`: was this very frame accepted before? Version 2 can tell.

The first that says no names a :class:`~penstock.trust.faults.SignatureFault`. Nothing here knows a
clock, a disk or a source of randomness: the time is an argument, keys arrive as values, and whoever
makes a key pair brings the seed.
"""
