"""A call in flight and all that happens to it, in small parts. `pipeline` puts them in their order.

`live` is the call itself. `checks`, `bodies` and `outcome` are its stages; `records` is what the log says of it;
`telling` and `streams` are what its readers hear; `answering`, `draining` and `recovery` take it up again or bring it
to an end; `history` and `progress` read it back from the log.
"""
