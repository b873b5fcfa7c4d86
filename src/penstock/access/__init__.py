"""Who may do what: admission of publishes, signed envelopes."""
