"""Values without behaviour of their own: topics, filters, messages."""
