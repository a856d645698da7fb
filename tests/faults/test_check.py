"""A harness that finds nothing is worth something only if it would have found it."""

import json
import random
import sqlite3
from pathlib import Path

import pytest

from tests.faults import power, tools
from tests.faults.check import Check
from tests.faults.power import Op
from tests.faults.witness import append, lines
from tests.requirements import requirement


@pytest.fixture
async def place(tmp_path: Path) -> Path:
    """A round in which one order was made and one amount charged, without any fault."""
    async with tools.crib(tmp_path, _store(tmp_path)) as crib:
        session = await crib.open("s", owner="ada")
        for n, tool in enumerate(("charge", "order", "ship")):
            append(tmp_path / "ledger-a.jsonl", "try", str(n), tool, "s")
            call = await session.submit(tool, {"n": str(n)}, key=f"k-{n}")
            append(tmp_path / "ledger-a.jsonl", "ack", str(n), call.id)
            assert (await session.result(call.id)).ok
        state = await crib.open("state", owner="ada")
        assert (await state.call("tally", {"n": "9"}, key="k-9")).ok
    return tmp_path


def _store(folder: Path) -> str:
    return f"sqlite:///{folder}/log.db"


async def columns(folder: Path) -> set[str]:
    violations = await Check(folder, _store(folder), durable=True).run()
    return {violation.column for violation in violations}


def change(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "log.db") as file:
        assert file.execute(statement).rowcount
    file.close()


@requirement("reliability.proof.2")
async def test_a_round_without_faults_has_no_violations(place: Path) -> None:
    assert await Check(place, _store(place), durable=True).run() == []


@requirement("reliability.proof.2")
async def test_an_acknowledged_call_that_is_not_in_the_log_is_lost(place: Path) -> None:
    append(place / "ledger-a.jsonl", "ack", "7", "c-gone")
    assert await columns(place) == {"lost"}


@requirement("reliability.proof.2")
@pytest.mark.parametrize("kind", ["charge", "settle", "pack"])
async def test_a_body_or_a_step_that_ran_twice_is_noticed(place: Path, kind: str) -> None:
    path = place / "effects.jsonl"
    line = next(words for words in lines(path) if words[0] == kind)
    line[3] += 1  # in a later attempt
    line[5] += 1.0
    append(path, *line)
    assert await columns(place) == {"twice"}


@requirement("reliability.proof.2")
async def test_what_runs_although_it_was_refused_is_noticed(place: Path) -> None:
    append(place / "ledger-a.jsonl", "left in doubt", "0", "charge")  # that says that it may have been accepted
    assert await columns(place) == set()
    append(place / "ledger-a.jsonl", "gave up", "0", "charge")
    assert await columns(place) == {"twice"}


@requirement("reliability.proof.2")
async def test_a_result_without_its_effect_is_noticed(place: Path) -> None:
    path = place / "effects.jsonl"
    kept = [words for words in lines(path) if words[0] != "charge"]
    path.write_text("".join(f"{json.dumps(words)}\n" for words in kept))
    assert await columns(place) == {"lost"}


@requirement("reliability.proof.2")
async def test_a_missing_end_is_stuck_and_a_missing_event_a_gap(place: Path) -> None:
    change(place, "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events AS other WHERE kind = 'done')")
    assert {"stuck", "wrong"} <= await columns(place)
    change(place, "DELETE FROM events WHERE seq = 3")
    assert "gaps" in await columns(place)


@requirement("reliability.proof.2")
async def test_what_runs_after_a_logout_is_noticed(place: Path) -> None:
    append(place / "ledger-a.jsonl", "closed", "s", 0.0)
    assert await columns(place) == {"wrong"}


def test_a_power_cut_takes_only_what_was_never_synced() -> None:
    ops = [Op("W", "f", 0, b"kept"), Op("S", "f", 0, b""), Op("W", "f", 4, b"lost" * 1000)]
    left = [bytes(power.after(bytearray(), ops, random.Random(seed))) for seed in range(50)]
    assert all(content.startswith(b"kept") for content in left)
    assert len(set(left)) > 2  # nothing, all, and torn


@requirement("reliability.proof.2")
def test_a_record_that_a_kill_cut_in_half_is_left_out_of_a_journal(tmp_path: Path) -> None:
    def record(name: str, data: bytes) -> bytes:
        return power.RECORD.pack(power.MARK, ord("W"), 0, len(data), name.encode()) + data

    first, torn, last = record("one.db", b"a" * 700), record("two.db", b"b" * 700), record("three.db", b"c" * 700)
    path = tmp_path / "journal"
    for cut in (len(power.MARK) + 3, power.RECORD.size + 100):
        path.write_bytes(first + torn[:cut] + last + torn[:cut])
        assert [(op.name, op.data[:1], len(op.data)) for op in power.journal(path)] == [
            ("one.db", b"a", 700),
            ("three.db", b"c", 700),
        ]
