"""Ed25519 keys and signatures: who may publish what, and the proof that they did."""
