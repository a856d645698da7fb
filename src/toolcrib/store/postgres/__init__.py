"""The log in a Postgres database: `store` is the store itself, the rest its parts."""
