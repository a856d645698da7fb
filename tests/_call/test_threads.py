"""The threads that plain functions run in: what comes of a job goes to whoever waits for it."""

import threading
from collections.abc import Iterator

import pytest

from tests.requirements import requirement
from toolcrib._call.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(2, "test")
    yield made
    made.shutdown()


def fail(error: BaseException) -> None:
    raise error


@requirement("reliability.stop.1")
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_what_a_job_returns_or_raises_goes_to_whoever_waits(threads: Threads, error: BaseException) -> None:
    assert threads.submit(int, "7").result(60) == 7
    assert threads.submit(fail, error).exception(60) is error
    assert threads.submit(int, "8").result(60) == 8


@requirement("reliability.stop.1")
def test_jobs_run_beside_each_other_up_to_the_limit_and_the_rest_in_their_order(threads: Threads) -> None:
    both, go, ran = threading.Barrier(3), threading.Event(), list[int]()

    def hold() -> None:
        both.wait(60)
        go.wait(60)

    held = [threads.submit(hold) for _ in range(2)]
    rest = [threads.submit(ran.append, number) for number in range(3)]
    both.wait(60)
    assert ran == []
    assert rest[1].cancel()
    go.set()
    for job in (*held, rest[0], rest[2]):
        job.result(60)
    assert sorted(ran) == [0, 2]


@requirement("reliability.stop.1")
def test_nothing_is_taken_after_the_end(threads: Threads) -> None:
    threads.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int)
