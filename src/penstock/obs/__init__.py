"""What is counted and logged: plain-integer counters, reasons, log events."""
