"""The JSON of each merged system, described; `forms` reads and writes by these descriptions."""
