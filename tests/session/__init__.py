"""Tests of sessions: opening, scheduling, streams, logout and login, by the chapter `sessions` of the specification."""
