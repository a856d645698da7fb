"""NATS JetStream as the engine: one work queue, a durable consumer for each lane, and a subject to stop calls by.

Messages carry ids and nothing else. A message is held while its call runs here, so that a lane's limit counts it, and
is acknowledged when the call is done, waits for somebody, or belongs to nobody here. Losing all of NATS's data loses no
call: a sweeper says again what is queued for too long.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from toolcrib.engine.lanes import DEFAULT, Lane, lane_of
from toolcrib.engine.maintenance import Maintenance
from toolcrib.engine.worker import LATER_S, Again, Worker
from toolcrib.errors import EngineUnavailable, ToolcribError
from toolcrib.extras import install
from toolcrib.store import LEASE_S, Row
from toolcrib.store.shared import Node, SharedStore
from toolcrib.types import Failure

try:
    import nats
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import api
    from nats.js.errors import BadRequestError, ServiceUnavailableError

    from toolcrib.engine.heartbeat import MessageHeartbeat, hang_up
except ModuleNotFoundError as missing:
    raise ToolcribError(f"The engine needs {missing.name}: {install('nats')}") from None

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort

log = logging.getLogger("toolcrib.engine")

CONNECT_S = 5.0
STOP_S = 1.0
RENEW_S = 1.0
SOON_S = 0.02
OLDEST_S = 24 * 3600.0
"""Hints expire after so long; calls that are still queued then get a new one."""

MANY = 65_536
"""Messages of the shared lane that may be out at once; its workers' slots are what bounds it."""


class Nats:
    """The engine over NATS. `slots` is how many calls this node runs at once; `work=False` is a node that runs none.

    `replicas` is for a NATS cluster of three. `lease` is how long a message may go without a heartbeat.
    """

    def __init__(
        self,
        url: str,
        *,
        slots: int = 256,
        work: bool = True,
        replicas: int = 1,
        lease: float = LEASE_S,
        label: str | None = None,
    ) -> None:
        self.servers = [part if "://" in part else f"nats://{part}" for part in url.split(",")]
        self.slots = slots
        self.works = work
        self.label = label or socket.gethostname()
        self.lanes: dict[str, Lane] = {}
        self._replicas = replicas
        self._lease = lease
        self._limits: dict[str, int | None] = {}
        self._held: dict[str, None] = {}
        self._words: list[tuple[str, bytes]] = []
        self._passed: deque[str] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pulse: MessageHeartbeat | None = None
        self._quiet = self._listens = False
        self._renewing: asyncio.TimerHandle | None = None

    # Joining

    async def start(self, crib: CribPort) -> None:
        """Connects, makes sure of the stream, and begins to take calls."""
        if not isinstance(crib.store, SharedStore):
            raise EngineUnavailable(
                f"An engine needs a store that machines can share, not {crib.store.url.partition(':')[0]}: "
                "use store='postgresql://...'"
            )
        self._crib = crib
        self._store = crib.store
        self._quiet = False
        self._work = Worker(crib, self._store)
        limits = crib.pipeline.limits
        self._store.own_changed = crib._session_table.changed_elsewhere
        self._store.in_use = lambda session: crib._session_table.at_hand(session) is not None
        self._store.bound(limits.per_session, limits.per_owner, self._unparked)
        self._prefix = f"toolcrib.{await self._store.cluster()}"
        self._stream = self._prefix.replace(".", "_")
        self._client = await self._connect()
        try:
            await self._make_stream()
            await self._client.subscribe(f"{self._prefix}.stop.{crib.pipeline.worker}", cb=self._stop_wanted)
            await self._client.subscribe(f"{self._prefix}.take.{crib.pipeline.worker}", cb=self._passed_on)
            await self._client.subscribe(f"{self._prefix}.written", cb=self._written)
            if self.works:
                self._pulse = MessageHeartbeat(self.servers, self._lease / 4, lambda: list(self._held))
            await self._open_lanes(anew=True)
        except BaseException:
            await self.close()
            raise
        if not self._listens:
            crib.catalog.listen(self._tools_changed)
            self._listens = True
        self.share(())
        Maintenance(crib, self._store, self)
        self.tell()

    async def _connect(self) -> Client:
        client, why = Client(), asyncio.get_running_loop().create_future()

        async def went_wrong(error: Exception) -> None:
            if not why.done():
                why.set_result(error)

        try:
            async with asyncio.timeout(CONNECT_S):
                await client.connect(
                    self.servers,
                    name=self._crib.pipeline.worker,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    error_cb=went_wrong,
                    reconnected_cb=self._reconnected,
                    skip_subject_validation=True,
                )
        except Exception as error:  # noqa: BLE001 - whatever it is, a person has to know where and what
            cause = why.result() if why.done() else error
            await hang_up(client)
            absent = isinstance(cause, (OSError, TimeoutError, nats.errors.NoServersError))
            raise EngineUnavailable(f"Cannot connect to {self._shown()}: {_plainly(cause)}", absent=absent) from None
        return client

    def _shown(self) -> str:
        return ", ".join(server.rpartition("@")[2].removeprefix("nats://") for server in self.servers)

    async def _make_stream(self) -> None:
        """The queue, made once by whoever comes first, and again where NATS has lost its data."""
        config = api.StreamConfig(
            name=self._stream,
            subjects=[f"{self._prefix}.call.>"],
            retention=api.RetentionPolicy.WORK_QUEUE,
            # One hint of a kind for a call at a time: a second one is dropped, however many nodes say it how often.
            max_msgs_per_subject=1,
            discard=api.DiscardPolicy.NEW,
            discard_new_per_subject=True,
            max_age=OLDEST_S,
            storage=api.StorageType.FILE,
            num_replicas=self._replicas,
        )
        js = self._client.jetstream(timeout=CONNECT_S)
        try:
            try:
                await js.add_stream(config)
            except BadRequestError:  # it is there, of another number of replicas, say
                await js.update_stream(config)
        except (ServiceUnavailableError, nats.errors.NoRespondersError):
            raise EngineUnavailable(
                f"The NATS server at {self._shown()} runs without JetStream: start it with `nats-server -js`"
            ) from None
        except nats.errors.Error as error:
            raise EngineUnavailable(f"NATS at {self._shown()} cannot keep the queue: {_plainly(error)}") from None

    def _limits_now(self) -> dict[str, int | None]:
        limits = {lane_of(tool): tool.limits.concurrency for tool in self._crib.catalog.view(("*",)).all}
        return {**limits, DEFAULT: None}

    async def _open_lanes(self, *, anew: bool) -> None:
        """A lane for each limit, and one for all the rest. Only who works asks for what comes by them."""
        known = {} if anew else self._limits
        self._limits = self._limits_now()
        for name, limit in self._limits.items():
            if name in known and known[name] == limit:
                continue
            await self._make_consumer(name, limit)
            if not self.works:
                continue
            lane = self.lanes.get(name)
            if lane is None:
                lane = self.lanes[name] = Lane(name, self._got, self._renew_soon, self._give_back)
            lane.slots = self.slots if limit is None else min(limit, self.slots)
            await lane.open(self._client, self._stream)

    async def _make_consumer(self, lane: str, limit: int | None) -> None:
        config = api.ConsumerConfig(
            durable_name=lane,
            filter_subject=f"{self._prefix}.call.{lane}.*",
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self._lease,
            max_deliver=-1,
            max_ack_pending=MANY if limit is None else limit,
            max_waiting=MANY,
        )
        await self._client.jetstream(timeout=CONNECT_S).add_consumer(self._stream, config)

    async def _reconnected(self) -> None:
        self._renew_soon(0.0)

    def _renew_soon(self, seconds: float = RENEW_S) -> None:
        if self._renewing is None and not self._quiet:
            self._renewing = asyncio.get_running_loop().call_later(seconds, self._renew)

    def _renew(self) -> None:
        self._renewing = None
        self._aside(self.renew())

    async def renew(self, *, anew: bool = True) -> None:
        """Makes sure of stream and consumers, and asks anew: NATS may have come back with nothing."""
        if self._quiet:
            return
        try:
            await self._make_stream()
            await self._open_lanes(anew=anew)
        except (EngineUnavailable, nats.errors.Error, TimeoutError) as error:
            log.warning("the engine is not ready yet: %s", _plainly(error))
            self._renew_soon()

    def _tools_changed(self) -> None:
        if self._limits_now() != self._limits:
            self._aside(self.renew(anew=False))
        self.tell()

    def tell(self) -> None:
        """What others see of this node."""
        tools = {tool.id: tool.fingerprint[:12] for tool in self._work.tools()}
        self._store.facts.update(
            label=self.label,
            role="worker" if self.works else "api",
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self.slots if self.works else 0,
            running=len(self._held),
            done=self._work.done,
            missing=sorted(self._work.missing),
            tools=tools if self.works else {},
            shared=self._crib.pipeline.scheduler.shared,
            hints="nats",
        )

    def share(self, nodes: Iterable[Node]) -> None:
        """Has owners share the slots of all workers, where a node that asks who somebody is has them share.

        While the limits name no other number, an owner has half of the slots, and others find the rest.
        """
        alive = [node.facts for node in nodes if node.alive]
        if any(facts.get("shared") for facts in alive):
            self._crib.share()
        limits = self._crib.pipeline.limits
        if limits.per_owner is None and self._crib.pipeline.scheduler.shared:
            slots = max(self.slots, sum(facts.get("slots") or 0 for facts in alive))
            self._store.bound(limits.per_session, max(1, slots // 2), self._unparked)

    # Hints

    def reach(self, nodes: Iterable[Node]) -> None:
        """Tells others by NATS what was written, where all who live hear it there; else the store tells them."""
        alive = [node.facts.get("hints") for node in nodes if node.alive]
        self._store.carry = self._carry if alive and set(alive) == {"nats"} else None

    def _carry(self, hints: list[str]) -> bool:
        if not self._client.is_connected:
            return False
        for hint in hints:
            self._say(f"{self._prefix}.written", hint.encode())
        return True

    async def _written(self, msg: Msg) -> None:
        self._store.heard(msg.data.decode("utf-8", "replace"))

    def dispatch(self, row: Row, why: str = "") -> None:
        """Says that a call is queued. Of hints for one reason a second is dropped while somebody has the first."""
        lane = lane_of(self._crib.catalog.get(row.tool))
        self._say(f"{self._prefix}.call.{lane}.{row.id}-{row.attempt}{why}", row.id.encode())

    def _say(self, subject: str, words: bytes) -> None:
        """Send a message with all others of this round of the loop. The sweeper repeats one that is lost."""
        self._words.append((subject, words))
        if len(self._words) == 1:
            self._aside(self._speak())

    async def _speak(self) -> None:
        while self._words:
            words, self._words = self._words, []
            for subject, payload in words:
                try:
                    await self._client.publish(subject, payload)
                except Exception as error:  # noqa: BLE001 - it is away; the store knows what there is to do
                    log.info("a message was not sent: %s", _plainly(error))

    def _unparked(self, rows: list[Row]) -> None:
        for row in rows:  # whoever parked it may not be through with its hint yet
            self.dispatch(row, f"-{secrets.token_hex(4)}")

    @property
    def missing(self) -> set[str]:
        """Tools that calls wait for and that this node lacks."""
        return self._work.missing

    def _got(self, lane: Lane, msg: Msg) -> None:
        """A hint that this worker has a slot for; it is held until the worker is through with its call."""
        reply = msg.reply
        call = msg.data.decode("utf-8", "replace")
        if self._quiet:  # it came while this node was told to stop: it is for another
            self._settle(reply, 0.0)
            return

        def through(later: float | str | None) -> None:
            if self._held.pop(reply, self) is self:
                return
            if isinstance(later, str):
                later = self._pass_on(lane, reply, call, later)
            self._settle(reply, later)
            lane.free()
            self._serve()

        self._held[reply] = None
        self._work.hint(call, through)

    def _give_back(self, msg: Msg) -> None:
        """A hint for a slot that was meanwhile asked for anew: it comes again, here or elsewhere."""
        self._settle(msg.reply, 0.0)

    def _pass_on(self, lane: Lane, reply: str, call: str, node: str) -> float | None:
        """Gives a hint to a node that has what this one lacks. One that counts for the limit of a tool has to go back
        to its lane: sooner at first, later where it comes back again and again.
        """
        if lane.name != DEFAULT:
            return min(LATER_S, SOON_S * 2.0 ** min(_delivered(reply) - 1, 10))
        self._say(f"{self._prefix}.take.{node}", call.encode())
        return None

    async def _passed_on(self, msg: Msg) -> None:
        """Another node had a hint that is for this one: it is served when there is a slot, before all others."""
        if DEFAULT not in self.lanes or len(self._passed) >= MANY:
            return  # the sweeper says it again
        self._passed.append(msg.data.decode("utf-8", "replace"))
        self._serve()

    def _serve(self) -> None:
        lane = self.lanes.get(DEFAULT)
        while lane is not None and self._passed and lane.held < lane.slots and not self._quiet:
            call = self._passed.popleft()
            lane.held += 1

            def through(later: float | str | None, lane: Lane = lane) -> None:
                lane.free()  # whatever else it is, the store knows
                self._serve()

            self._work.hint(call, _once(through))

    def _settle(self, reply: str, later: float | None) -> None:
        if later is None:
            self._say(reply, b"+ACK")
        else:
            self._say(reply, b"-NAK " + json.dumps({"delay": int(later * 1e9)}).encode() if later else b"-NAK")

    # Stopping

    async def stop_call(self, row: Row, failure: Failure) -> bool:
        """Ask the worker that runs the call to stop it."""
        if row.worker is None:
            return False
        subject = f"{self._prefix}.stop.{row.worker}"
        request = json.dumps({"call": row.id, "session": row.session, "failure": asdict(failure)}).encode()
        try:
            answer = await self._client.request(subject, request, timeout=STOP_S)
        except (nats.errors.Error, TimeoutError):
            return False
        return answer.data == b"+"

    async def _stop_wanted(self, msg: Msg) -> None:
        data: dict[str, Any] = json.loads(msg.data)
        session = self._crib._session_table.at_hand(data["session"])
        live = None if session is None else session.live.get(data["call"])
        heard = live is not None and (live.stop(Failure(**data["failure"])) or live.halted)
        await msg.respond(b"+" if heard else b"-")

    async def quiet(self) -> None:
        """Asks for no more calls."""
        self._quiet = True
        self._work.quiet = True
        while self._passed:  # they are for others now
            call = self._passed.popleft()
            self._say(f"{self._prefix}.call.{DEFAULT}.{call}-left", call.encode())
        await asyncio.gather(*(lane.quiet() for lane in self.lanes.values()))

    async def close(self) -> None:
        """Gives back what is still held, and disconnects."""
        self._quiet = True
        self._store.carry = None
        if self._renewing is not None:
            self._renewing.cancel()
        if self._pulse is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._pulse.stop)
            self._pulse = None
        for reply in list(self._held):
            self._settle(reply, 0.1)
        self._held.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        try:
            await self._client.flush(timeout=1)
        except Exception as error:  # noqa: BLE001 - it is gone already
            log.debug("closing: %s", error)
        await hang_up(self._client)
        self.lanes.clear()

    def _aside(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _once(again: Again) -> Again:
    """Call `again` the first time only."""
    done = False

    def once(later: float | str | None) -> None:
        nonlocal done
        if not done:
            done = True
            again(later)

    return once


def _delivered(reply: str) -> int:
    """How often a message was delivered, as the subject of its acknowledgement tells."""
    tokens = reply.split(".")
    return int(tokens[4] if len(tokens) == 9 else tokens[6])


def _plainly(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "nobody answered in time"
    return str(error) or type(error).__name__
