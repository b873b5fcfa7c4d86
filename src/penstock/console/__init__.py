"""The console: web pages at ``/console/`` by which people watch and steer the broker."""
