"""Who gets in where, and may do what: every door, kind of credential, action and verdict."""
