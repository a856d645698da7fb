"""What the nodes of a cluster stand at, for whoever waited in vain: calls, lanes, consumers, rows and tasks."""

import asyncio
import io
from collections.abc import Awaitable, Iterable

import asyncpg

from toolcrib import Crib
from toolcrib.engine.nats import Nats

ASK_S = 5.0
"""How long a server has to answer; one that does not is named in the report."""

FRAMES = 4


async def report(nodes: Iterable[Crib]) -> str:
    """Describe all that can be seen of those nodes that are connected; what cannot be asked is a line of it."""
    engines = [(node, node.pipeline.engine) for node in nodes]
    connected = [
        (node, engine)
        for node, engine in engines
        if isinstance(engine, Nats) and hasattr(engine, "_client") and not engine._client.is_closed
    ]
    lines = [line for node, engine in connected for line in await _node(node, engine)]
    for url in sorted({node.store.url.partition("?")[0] for node, _ in connected}):
        lines += (await _answer(_rows(url))).splitlines()
    return "\n".join([*lines, *_tasks()])


async def _node(node: Crib, engine: Nats) -> list[str]:
    """What a node runs, and what it has asked for."""
    lines = [f"node {engine.label} ({node.pipeline.worker}), stopping: {node.pipeline.stopping}"]
    calls = [live for session in node._session_table.all() for live in session.live.values()]
    lines += [f"  runs {live.id} of {live.name}: {live.row}" for live in calls]
    lines.append(f"  takes up {sorted(node.recovering)}, is to look up {sorted(engine._work._hints)}")
    for lane in engine.lanes.values():
        asked = f"{lane._requested} asked for, silent: {lane.silent()}"
        lines.append(f"  lane {lane.name}: {lane.held} of {lane.slots} held, {asked}")
        lines.append(f"    {await _answer(_consumer(engine, lane.name))}")
    return lines


async def _consumer(engine: Nats, lane: str) -> str:
    """What the server knows of a lane."""
    jetstream = engine._client.jetstream(timeout=ASK_S)
    consumer, stream = await jetstream.consumer_info(engine._stream, lane), await jetstream.stream_info(engine._stream)
    return (
        f"{stream.state.messages} messages of all lanes; {consumer.num_pending} not delivered, "
        f"{consumer.num_ack_pending} not acknowledged, {consumer.num_redelivered} delivered again, "
        f"{consumer.num_waiting} requests stand"
    )


async def _rows(url: str) -> str:
    """The newest calls and all nodes, as the database has them."""
    connection = await asyncpg.connect(url, timeout=ASK_S)
    try:
        calls = await connection.fetch("SELECT * FROM calls ORDER BY accepted_at DESC, accepted_seq DESC LIMIT 20")
        nodes = await connection.fetch("SELECT name, seen_at, clock_timestamp() AS now, facts FROM nodes")
    finally:
        await connection.close()
    return "\n".join(str(dict(row)) for row in [*calls, *nodes])


async def _answer(question: Awaitable[str]) -> str:
    try:
        async with asyncio.timeout(ASK_S):
            return await question
    except Exception as error:  # noqa: BLE001 - a report tells what it can
        return f"not known: {error!r}"


def _tasks() -> list[str]:
    """Where the tasks of this loop wait."""
    text = io.StringIO()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.print_stack(limit=FRAMES, file=text)
    return text.getvalue().splitlines()
