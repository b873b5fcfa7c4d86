"""What the API reads of the journal: functions for reader threads, each with a bound."""
