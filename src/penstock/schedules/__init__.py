"""When schedules fire: cron expressions, time zones, firings that were missed. Pure."""
