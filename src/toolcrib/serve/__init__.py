"""The endpoints of a crib for other programs. Each reads and writes the session log; none keeps state of its own.

`http.Site` is the ASGI application with all of them: `api` (HTTP), `mcp` (Model Context Protocol) and `fronts` (what
chat pages and other agents speak). What they share stands here: `principal` (who asks), `keyring`, `keys`, `oauth` and
`cookies` (how they are known), `origins` (from where), `asgi` (bodies and replies), `patience` and `metrics`.
"""
