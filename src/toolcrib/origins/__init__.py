"""Where a value came from: the words of the user, a field of a result, the prose of one, or nowhere."""

SCRIPT = "builtin.run_script"
"""The tool whose calls are chosen by the model that wrote the script."""
