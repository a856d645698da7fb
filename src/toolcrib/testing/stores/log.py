"""The log: what is written is there, once, in order, numbered without gaps, and whole."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib.events import Event, Notice, Progress
from toolcrib.store import Write, draft
from toolcrib.store.codec import LARGE, Omitted, PageLimit, Stored, encode, raw
from toolcrib.testing.index_check import read_all
from toolcrib.testing.stores.fixture import AT, StoreFixture, line, new, note, submit, texts

ODD: list[Any] = [
    {},
    {"": ""},
    {"nothing": None, "no": False, "yes": True},
    {"text": "Grüße, 世界 🧰 \u202e\x00\x1f\\\"'\n"},
    {"numbers": [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, -0.0, 1e308, 5e-324]},
    {"deep": [[[[{"a": [{"b": {}}]}]]], []]},
    {"long": "x" * 20_000, "wide": {str(i): i for i in range(500)}},
]


class EventPair:
    """The data of two events in one object, as the fast path writes it."""

    def json(self, kind: str) -> bytes:
        """What the event of that kind says."""
        return encode({"of": kind})


class LogTests(StoreFixture):
    """Appending and reading."""

    async def test_events_are_read_as_they_were_written(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [draft(AT, "c", Progress("running")), draft(AT + 1.25, None, Notice("so"))]))
            first, second = await store.read("s")
            assert first == Event.of(1, AT, "c", Progress("running"))
            assert second == Event.of(2, AT + 1.25, None, Notice("so"))

    async def test_puts_and_commits_keep_their_order(self) -> None:
        async with self.opened("s") as store:
            for number in range(0, 300, 3):
                store.put(note("s", str(number)))
                store.put(note("s", str(number + 1)))
                await store.commit(note("s", str(number + 2)))
            assert await texts(store) == [str(number) for number in range(300)]

    async def test_many_writers_leave_no_gap_in_the_numbers(self) -> None:
        sessions = [f"s{number}" for number in range(5)]
        async with self.opened(*sessions) as store:

            async def write(writer: int) -> None:
                for number in range(20):
                    write = Write(
                        sessions[(writer + number) % 5], [line(f"{writer}/{number}"), line(f"{writer}/{number}+")]
                    )
                    if number % 3:
                        store.put(write)
                    else:
                        await store.commit(write)

            await asyncio.gather(*(write(writer) for writer in range(50)))
            await store.flush()
            logs = [await read_all(store, session) for session in sessions]
            assert [[event.seq for event in log] for log in logs] == [list(range(1, 401))] * 5
            written = {event.fields["text"] for log in logs for event in log}
            assert len(written) == 50 * 20 * 2

    async def test_the_events_of_one_write_stand_together(self) -> None:
        async with self.opened("s") as store:
            writes = [Write("s", [line(f"{n}"), line(f"{n}"), line(f"{n}")]) for n in range(50)]
            await asyncio.gather(*(store.commit(write) for write in writes))
            written = await texts(store)
            assert [written[at : at + 3] for at in range(0, 150, 3)] == [[text] * 3 for text in written[::3]]

    async def test_a_page_ends_at_its_limit_and_the_next_goes_on(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(str(number)) for number in range(10)]))
            assert [event.seq for event in await store.read("s", 0, limit=4)] == [1, 2, 3, 4]
            assert [event.seq for event in await store.read("s", 4, limit=4)] == [5, 6, 7, 8]
            assert [event.seq for event in await store.read("s", 8, limit=4)] == [9, 10]
            assert await store.read("s", 10, limit=4) == []
            assert await store.read("s", 11, limit=4) == []

    async def test_a_reader_from_before_the_beginning_starts_with_the_first_event(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line("first"), line("last")]))
            assert [(event.seq, event.fields["text"]) for event in await store.read("s", -1)] == [
                (1, "first"),
                (2, "last"),
            ]

    async def test_a_page_ends_at_until(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(str(number)) for number in range(10)]))
            assert [event.seq for event in await store.read("s", 2, until=5)] == [3, 4, 5]
            assert [event.seq for event in await store.read("s", 2, until=50, limit=2)] == [3, 4]
            assert await store.read("s", 0, until=0) == []

    async def test_one_call_or_what_has_none_can_be_read_alone(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(call=call) for call in ("a", None, "b", "a", None, "b")]))
            assert [event.seq for event in await store.read("s", call="a")] == [1, 4]
            assert [event.seq for event in await store.read("s", 1, call="b", until=5)] == [3]
            assert [event.seq for event in await store.read("s", call="")] == [2, 5]
            assert [event.seq for event in await store.read("s", call="", limit=1)] == [2]
            assert await store.read("s", call="c") == []

    async def test_odd_data_comes_back_as_it_went(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [(AT, None, "notice", Stored(encode(data))) for data in ODD]))
            assert [event.fields for event in await store.read("s")] == ODD
            again = await self.restarted(store)
            assert [event.fields for event in await again.read("s")] == ODD

    async def test_a_number_of_any_size_comes_back_whole(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(args=raw(b'{"wei":115792089237316195423570985008687907853}'))]))
            again = await self.restarted(store)
            (event,) = await again.read("s")
            assert event.fields["args"] == {"wei": 115792089237316195423570985008687907853}

    async def test_large_data_comes_back_whole(self) -> None:
        large = {"pages": ["é" * 1000 for _ in range(100)], "n": 7}
        json = encode(large)
        assert len(json) > LARGE
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(args=raw(json)), line(args=raw(json), more=1)]))
            assert [event.fields["args"] for event in await store.read("s")] == [large, large]
            again = await self.restarted(store)
            first, second = await again.read("s")
            assert first.fields == {"text": "", "args": large}
            assert second.fields == {"text": "", "args": large, "more": 1}

    async def test_a_page_ends_with_the_event_that_brings_it_to_its_bytes(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line("x" * 1000) for _ in range(10)]))
            for after in range(0, 9, 3):
                page = await store.read("s", after, extent=PageLimit(2500))
                assert [event.seq for event in page] == [after + 1, after + 2, after + 3]
            assert len(await store.read("s", 9, extent=PageLimit(2500))) == 1
            assert len(await store.read("s", extent=PageLimit(1))) == 1
            two = sum(len(event.json) for event in await store.read("s", limit=2))
            assert [len(await store.read("s", extent=PageLimit(two + more))) for more in (-1, 0, 1)] == [2, 2, 3]

    async def test_large_values_count_for_a_page_in_whichever_way_it_is_read(self) -> None:
        async with self.opened("s") as store:
            large = raw(encode("x" * 10 * LARGE))
            await store.commit(Write("s", [line(args=large, call=call) for call in ("a", None) for _ in range(4)]))
            again = await self.restarted(store)
            bound = PageLimit(15 * LARGE)
            assert [event.seq for event in await again.read("s", extent=bound)] == [1, 2]
            assert [event.seq for event in await again.read("s", until=7, extent=bound)] == [1, 2]
            assert [event.seq for event in await again.read("s", call="a", extent=bound)] == [1, 2]
            assert [event.seq for event in await again.read("s", call="", extent=bound)] == [5, 6]
            assert len(await read_all(again, "s")) == 8

    async def test_pages_can_be_read_without_large_values(self) -> None:
        async with self.opened("s") as store:
            json = encode({"text": "é" * LARGE})
            await store.commit(Write("s", [line("small", args=raw(json), n=number) for number in range(50)]))
            seen: list[Event] = []
            while page := await store.read("s", len(seen), extent=PageLimit(whole=False)):
                seen += page
            assert [event.fields for event in seen] == [
                {"text": "small", "args": Omitted(len(json)), "n": number} for number in range(50)
            ]
            assert seen[0].fields != (await store.read("s", limit=1))[0].fields

    async def test_large_data_of_two_sessions_is_apart(self) -> None:
        json = encode("x" * (LARGE + 1))
        async with self.opened("s", "t") as store:
            await store.commit(Write("s", [line(args=raw(json), at=AT - 100)]))
            await store.commit(Write("t", [line(args=raw(json), at=AT + 100)]))
            await store.sweep(AT + 50, AT + 50)
            (event,) = await store.read("t")
            assert await store.session("s") is None
            assert len(event.fields["args"]) == LARGE + 1

    async def test_compact_data_is_written_out_for_each_event(self) -> None:
        async with self.opened("s") as store:
            both = EventPair()
            await store.commit(Write("s", [(AT, "c", "accepted", both), (AT, "c", "started", both)]))
            again = await self.restarted(store)
            assert [event.fields for event in await again.read("s")] == [{"of": "accepted"}, {"of": "started"}]

    async def test_what_a_reader_does_to_its_data_changes_no_log(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(list=[1])]))
            (event,) = await store.read("s")
            event.fields["list"].append(2)
            assert (await store.read("s"))[0].fields["list"] == [1]

    async def test_what_was_put_is_there_after_a_flush(self) -> None:
        async with self.opened("s") as store:
            other = await self.second(store)
            for number in range(600):
                store.put(note("s", str(number)))
            await store.flush()
            assert len(await read_all(other, "s")) == 600

    async def test_what_was_put_is_there_after_a_close(self) -> None:
        async with self.opened("s") as store:
            for number in range(600):
                store.put(note("s", str(number)))
            again = await self.restarted(store)
            assert await texts(again) == [str(number) for number in range(600)]

    async def test_numbers_go_on_after_a_restart(self) -> None:
        async with self.opened("s") as store:
            await store.commit(note("s", "before"))
            again = await self.restarted(store)
            await again.commit(note("s", "after"))
            assert [(event.seq, event.fields["text"]) for event in await again.read("s")] == [
                (1, "before"),
                (2, "after"),
            ]

    async def test_whoever_asks_for_rows_sees_what_was_put_before(self) -> None:
        async with self.opened("s") as store:
            for number in range(100):
                store.put(submit(new(f"c{number}")))
                assert await store.call(f"c{number}") is not None
                assert len(await store.calls("s")) == number + 1

    async def test_a_commit_is_told_once_when_it_is_written(self) -> None:
        committed: list[str] = []
        async with self.opened("s") as store:
            row = new("c")
            store.put(Write("s", [line()], row, on_commit=lambda: committed.append("put")))
            await store.commit(Write("s", [line()], on_commit=lambda: committed.append("commit")))
            await store.commit(Write("s", [line()], row, on_commit=lambda: committed.append("refused")))
            await store.flush()
            assert committed == ["put", "commit"]
