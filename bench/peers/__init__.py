"""What diskstream is held against: Redis, SQLite, and the bare disk."""
