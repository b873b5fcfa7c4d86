"""HTTP: /health, /ready and /metrics; no business logic."""
