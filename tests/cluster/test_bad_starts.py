"""What keeps a worker from starting is said in a line that helps, without a password and without a stack."""

import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.cluster.place import Place
from tests.requirements import requirement
from toolcrib.testing.services import NatsServer, execute

Break = Callable[[Place, ExitStack], str]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def no_jetstream(place: Place, stack: ExitStack) -> str:
    place.engine = stack.enter_context(NatsServer(jetstream=False)).url
    return "JetStream"


def nobody_at_the_port_of_nats(place: Place, stack: ExitStack) -> str:
    port = str(free_port())
    place.engine = f"nats://ada:swordfish@127.0.0.1:{port}"
    return port


def nobody_at_the_port_of_postgres(place: Place, stack: ExitStack) -> str:
    parts, port = urlsplit(place.store), str(free_port())
    place.store = parts._replace(netloc=parts.netloc.replace(str(parts.port), port)).geturl()
    return port


def wrong_password(place: Place, stack: ExitStack) -> str:
    place.store = place.store.replace(str(urlsplit(place.store).password), "swordfish")
    return "password is wrong"


def no_such_database(place: Place, stack: ExitStack) -> str:
    place.store = urlsplit(place.store)._replace(path="/elsewhere").geturl()
    return "elsewhere"


def newer_schema(place: Place, stack: ExitStack) -> str:
    execute(
        urlsplit(place.store)._replace(query="").geturl(),
        "UPDATE schema_version SET version = 1000",
    )
    return "1000"


def a_store_of_one_process(place: Place, stack: ExitStack) -> str:
    place.store = f"sqlite:///{place.folder}/log.db"
    return "postgresql://"


def an_engine_that_nobody_knows(place: Place, stack: ExitStack) -> str:
    place.engine = "kafka://127.0.0.1"
    return "nats://"


@requirement("engine.2", "store.7")
@pytest.mark.parametrize(
    "broken",
    [
        no_jetstream,
        nobody_at_the_port_of_nats,
        nobody_at_the_port_of_postgres,
        wrong_password,
        no_such_database,
        newer_schema,
        a_store_of_one_process,
        an_engine_that_nobody_knows,
    ],
    ids=lambda broken: broken.__name__,
)
async def test_a_worker_that_cannot_start_says_why(broken: Break, place: Place) -> None:
    password = str(urlsplit(place.store).password)
    with ExitStack() as stack:
        named = broken(place, stack)
        worker = place.begin(TOOLCRIB_WAIT="1")
        assert await worker.ended() in (1, 2)
    (error,) = [line for line in worker.said if line.startswith("Error: ")]
    assert named in error
    assert not [line for line in worker.said if "Traceback" in line or password in line or "swordfish" in line]


@requirement("engine.2")
async def test_a_worker_without_an_engine_says_how_to_name_one(place: Place) -> None:
    words = [sys.executable, "-m", "toolcrib", "worker", "--crib", "tests.cluster.cribs:crib", "--store", place.store]
    worker = place.run(words, "w1")
    assert await worker.ended() == 2
    assert "--engine nats://" in "\n".join(worker.said)
