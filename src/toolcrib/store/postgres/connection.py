"""Connections to Postgres: what a URL says, how to dial, and a few connections that readers share.

Errors say what to do, and never contain the password.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.extras import install
from toolcrib.store import LEASE_S

try:
    import asyncpg
except ImportError:
    raise StoreUnavailable(f"Postgres needs asyncpg: {install('postgres')}") from None

AWAY_S = 4.5
"""How long a caller waits for a database that is away, so that it gets an error within 5 s."""

ANSWER_S = 5.0
"""A database that does not answer a batch, a beat or a greeting within this time is away."""

READ_S = 10.0
"""The same for a reader, who may ask for much, while the database answers others."""

PROBE_S, ALIVE_S = 2.5, 1.5
"""After how long without an answer it is looked whether the database answers anybody, and how long it has for that."""

MIGRATE_S = 600.0
"""The same for a step of the schema, which may touch every row."""

PAUSE_S = (0.05, 1.0)
"""Between two attempts to reach it: at first, and at most."""

READERS = 4

Connection = Any
"""Of asyncpg, which ships no types."""

BROKEN = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
"""What a statement without any values of somebody else's can raise: the connection, or the server, is not well."""

RACED = (asyncpg.TransactionRollbackError, asyncpg.UniqueViolationError)
"""Two waited for each other, or made the same at once: who came second begins anew, and sees what the first did."""

IN_THE_WAY = (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError)
"""There is already something of that name."""

T = TypeVar("T")


class DatabaseAddress:
    """A URL taken apart: where to dial, which schema to use, how it is divided, how long a node may be silent."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        self.schema = options.pop("schema", "public")
        lease = options.pop("lease", str(LEASE_S))
        partitions = options.pop("partitions", None)
        self.dsn = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(options)))
        self.shown = _shown(url)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,50}", self.schema):
            raise StoreError(f"'{self.shown}': a schema is named by letters, digits and underscores")
        if not re.fullmatch(r"\d+(\.\d+)?", lease) or float(lease) <= 0:
            raise StoreError(f"'{self.shown}': lease is a number of seconds")
        self.lease = float(lease)
        if partitions is not None and not re.fullmatch(r"[1-9]\d{0,2}", partitions):
            raise StoreError(f"'{self.shown}': partitions is a number from 1 to 999")
        self.partitions = None if partitions is None else int(partitions)
        self.where = parts.netloc.rpartition("@")[2] or options.get("host", "localhost")

    async def connect(self, answer_s: float | None = None, *, within: float | None = None) -> Connection:
        """A new connection, made within so many seconds.

        Raises:
            StoreUnavailable: there is none to be had now, and why.
        """
        settings = {
            "application_name": "toolcrib",
            "search_path": f'"{self.schema}"',
            "default_transaction_isolation": "read committed",
            # Each statement is planned once, for tables of any size: by index, also while there are no statistics.
            "jit": "off",
            "max_parallel_workers_per_gather": "0",
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            "statement_timeout": "0",
            "lock_timeout": "0",
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
        }
        try:
            return await asyncpg.connect(
                self.dsn,
                timeout=ANSWER_S if within is None else min(within, ANSWER_S),
                command_timeout=answer_s or ANSWER_S,
                server_settings=settings,
            )
        except Exception as error:  # noqa: BLE001 - a peer that is no Postgres may break the driver in any way
            absent = isinstance(error, (OSError, TimeoutError, asyncpg.CannotConnectNowError))
            raise StoreUnavailable(f"Cannot open {self.shown}: {self._reason(error)}", absent=absent) from None

    def _reason(self, error: Exception) -> str:
        if isinstance(error, (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)):
            return "the user or the password is wrong"
        if isinstance(error, asyncpg.PostgresConnectionError):
            return f"what listens at {self.where} does not speak as Postgres does, or hung up"
        if isinstance(error, asyncpg.PostgresError):
            return str(error)
        if isinstance(error, TimeoutError):
            return f"nothing at {self.where} answers as Postgres does"
        if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
            return f"nothing listens at {self.where}"
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return f"{self.where} cannot be reached ({error.strerror or error})"
        return f"what listens at {self.where} does not speak as Postgres does ({type(error).__name__})"


def _shown(url: str) -> str:
    """The URL without its password, which may also stand among its options."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    options = [(name, "***" if "password" in name else value) for name, value in parse_qsl(parts.query)]
    query = urlencode(options, safe="*/", quote_via=quote)
    return urlunsplit(parts._replace(netloc=f"{user}{colon and ':***'}{at}{host}", query=query))


def is_away(error: BaseException, connection: Connection) -> bool:
    """True if the connection was lost or the server cannot work now, rather than refused a statement."""
    lost = (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
    return isinstance(error, (*lost, asyncpg.ReadOnlySQLTransactionError)) or connection.is_closed()


def explain(error: Exception, address: DatabaseAddress) -> Exception:
    """What a person can do about it, instead of the driver's words alone."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, asyncpg.InsufficientResourcesError):
        return StoreUnavailable(f"The store {address.shown} cannot be used now: {error}; nothing was half-written")
    return StoreError(f"The store could not do it: {type(error).__name__}: {error}")


class ConnectionPool:
    """A few connections, made when needed. Who asks while the database is away waits a little for it.

    `requests` counts who came.
    """

    def __init__(self, address: DatabaseAddress) -> None:
        self.requests = 0
        self._address = address
        self._free: list[Connection] = []
        self._busy: set[Connection] = set()
        self._places = asyncio.Semaphore(READERS)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._probe: asyncio.Task[None] | None = None
        self._doubted: set[Connection] = set()
        self._closed = False

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """The rows of one statement."""
        return await self.run(lambda connection: connection.fetch(query, *values))

    async def run(self, do: Callable[[Connection], Awaitable[T]]) -> T:
        """Does something with a connection, and does it again where that was lost.

        Raises:
            StoreUnavailable: the database is away.
        """
        self.requests += 1
        # A task of its own, since a query that is cut off half-way would take its connection with it.
        task = asyncio.ensure_future(self._run(do))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever gave up waiting does not want to know

    async def _run(self, do: Callable[[Connection], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + AWAY_S, PAUSE_S[0]
        try:
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            raise self._away("or overloaded") from None
        try:
            while True:
                try:
                    return await self._once(do, until)
                except StoreUnavailable:
                    if self._closed or loop.time() + pause > until:
                        raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_S[1])
        finally:
            self._places.release()

    def _away(self, why: object) -> StoreUnavailable:
        return StoreUnavailable(f"The store {self._address.shown} is away: {why}")

    async def _once(self, do: Callable[[Connection], Awaitable[T]], until: float) -> T:
        if self._closed:
            raise StoreUnavailable(f"The store {self._address.shown} is closed")
        left = until - asyncio.get_running_loop().time()
        connection = self._free.pop() if self._free else await self._address.connect(READ_S, within=left)
        self._busy.add(connection)
        try:
            result = await self._answered(connection, do, until)
        except Exception as error:  # noqa: BLE001 - raised as an error of ours
            if is_away(error, connection) or isinstance(error, RACED[0]):
                connection.terminate()
                raise self._away(error) from None
            self._free.append(connection)
            raise explain(error, self._address) from None
        except BaseException:
            connection.terminate()
            raise
        finally:
            self._busy.discard(connection)
        self._free.append(connection)
        return result

    async def _answered(self, connection: Connection, do: Callable[[Connection], Awaitable[T]], until: float) -> T:
        """Return the result. A silent connection is given up, unless the database answers others."""
        loop = asyncio.get_running_loop()
        silent = loop.call_at(min(loop.time() + PROBE_S, until - ALIVE_S), self._doubt, connection)
        try:
            return await do(connection)
        finally:
            silent.cancel()

    def _doubt(self, connection: Connection) -> None:
        if self._probe is None or self._probe.done():
            self._doubted = set()
            self._probe = asyncio.get_running_loop().create_task(self._look())
        self._doubted.add(connection)

    async def _look(self) -> None:
        """Asks over a new connection whether the database answers at all."""
        try:
            async with asyncio.timeout(ALIVE_S):
                await hang_up(await self._address.connect())
        except (StoreUnavailable, TimeoutError):
            for connection in self._doubted:
                connection.terminate()

    async def close(self, *, listens: bool = True) -> None:
        """Lets what is under way end, unless the database does not listen, and hangs up."""
        self._closed = True
        if not listens:
            for connection in self._busy:
                connection.terminate()
            for task in self._tasks:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait([self._probe])
        await asyncio.gather(*(hang_up(connection, listens=listens) for connection in self._free))
        self._free.clear()


async def hang_up(connection: Connection, *, listens: bool = True) -> None:
    """Says goodbye, or not, where the other side does not listen."""
    if not listens:
        connection.terminate()
        return
    try:
        await connection.close(timeout=1.0)
    except BROKEN:
        connection.terminate()
