"""Coding agents under the policy of a crib: their hooks are judged, logged, and asked about in the inbox.

An agent's command, file or URL becomes a call of a client tool (`client.shell`, `client.write_file`, ...) in a session
of its own; the agent runs it, and never the crib. `relay` imports nothing but the standard library.
"""
