"""The types of events."""
