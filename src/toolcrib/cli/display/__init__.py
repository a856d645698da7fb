"""What a person sees of calls, runs and conversations."""
