"""``penstock.tasks``: real brokers, and workers as processes of their own."""
