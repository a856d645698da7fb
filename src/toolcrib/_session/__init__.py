"""What holds for a session as a whole: its directory, recovery, drain, children, and the views of its log."""
