"""The doors of a crib to other programs. Each door reads and writes the session log; none keeps a truth of its own.

`http.Site` is the ASGI application with all of them, `mcp` the Model Context Protocol. What they share stands here:
`principal` (who asks), `origins` (from where), `asgi` (bodies and replies).
"""
