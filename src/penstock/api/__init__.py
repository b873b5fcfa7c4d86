"""The HTTP API under /api/v1: one declaration per operation, documents as msgspec structs."""
