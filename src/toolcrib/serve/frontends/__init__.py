"""The endpoints of front ends, each in a protocol that they speak already: AG-UI, the AI SDK's UI messages, A2A.

`conversation` is what they share: who comes in, which session that is, what is sent to its agent, and the events of the
run that takes it. Each protocol is then only a reader that turns events of the log into events of its own.
"""
