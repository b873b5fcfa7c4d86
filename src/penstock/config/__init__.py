"""The configuration: schema, loading (file, environment, flags), explaining."""
