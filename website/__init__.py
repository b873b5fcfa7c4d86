"""Makes the documentation site of docs/ (``make site``)."""
