"""What the API answers: one module of structs per family of resources."""
