from penstock.core.routes import Route as Route
