"""Ed25519 keys and signatures: who may publish what, and the proof.

Doors only need the :class:`~penstock.trust.gate.Gate`. It checks, in this order:

1. :mod:`~penstock.trust.policy`: does this topic require a signature, and which versions?
2. :mod:`~penstock.trust.keys`: is the key known and valid, and is the signature
   (:mod:`~penstock.trust.signatures`) made with it? Only then: may that key publish to this topic
   (:mod:`~penstock.trust.acl`)?
3. :mod:`~penstock.trust.replay`: was this frame accepted before? Only version 2 can tell.

The first failed check is reported as a :class:`~penstock.trust.faults.SignatureFault`. Nothing here
uses a clock, a disk or randomness: time, keys and seeds are arguments.
"""
