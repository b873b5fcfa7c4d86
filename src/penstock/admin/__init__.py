"""HTTP: /health, /ready, /metrics, /topics and /keys; no business logic."""
