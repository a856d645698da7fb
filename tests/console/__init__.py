"""The console in a real browser, against a real server."""
