"""The measurements over Postgres and NATS. Each is an API node in a process of its own; a worker runs beside it."""
