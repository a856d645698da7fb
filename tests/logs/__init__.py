"""Logs that version 0.1.0 wrote, with every kind of event that it knew, and what they must always mean."""
