"""A call in flight and all that happens to it, in small parts. `pipeline` puts them in their order.

`live` is the call itself. `checks`, `bodies` and `outcome` are its stages; `records` is what the log says of it;
`telling` and `streams` are what its readers hear; `assent` is who may answer; `answering`, `approving`, `overdue`,
`stopping`, `draining` and `recovery` take it up again or bring it to an end; `children` are the calls that it makes,
`elsewhere` is where others run it; `history`, `lists`, `progress` and `auditing` read it back from the log.
"""
