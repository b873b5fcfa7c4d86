"""What the journal keeps: rules, limits of topics, the scan that enforces them."""
