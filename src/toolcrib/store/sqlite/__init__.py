"""The log in an SQLite file: `store` is the store itself, the rest its parts."""
