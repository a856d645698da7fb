"""Statistics are a view of the log: names and numbers, and advice that nothing acts on."""

from typing import Any

from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib.definitions.registry import Registry, read
from toolcrib.definitions.usage import RegistryAdvice, ToolUsage, advice
from toolcrib.errors import ToolFailure
from toolcrib.events import Event
from toolcrib.store.codec import encode


@tool(namespace="desk")
def close(ticket: str, secret: str = "") -> str:
    """Close a ticket."""
    if ticket == "bad":
        findings = [
            {"path": "ticket", "code": "invalid", "message": "no", "severity": "error", "source": "check-ticket"},
            {"path": "ticket", "code": "invalid", "message": "nor", "severity": "error", "source": "check-ticket"},
            {"path": "", "code": "invalid", "message": "hm", "severity": "warning", "source": "other"},
        ]
        raise ToolFailure("invalid_arguments", "ticket: no", hint="like T-1", metadata={"findings": findings})
    return "closed " + ticket


def events(*said: tuple[str, str, dict[str, Any]], at: float = 1.0) -> list[Event]:
    return [Event(seq, at + seq, call, kind, encode(data)) for seq, (call, kind, data) in enumerate(said)]


def used(calls: int, sessions: int, tool: str = "exa.search", usage: ToolUsage | None = None) -> ToolUsage:
    """So many calls of a tool, spread over so many sessions."""
    usage = ToolUsage() if usage is None else usage
    for number in range(calls):
        for event in events(
            (f"c{number}", "accepted", {"tool": tool, "args": {}}), (f"c{number}", "done", {"ok": True})
        ):
            usage.take(f"s{number % sessions}", event)
    return usage


@requirement("yaml.use.1")
async def test_the_log_of_real_calls_gives_names_and_numbers_and_nothing_else() -> None:
    usage = ToolUsage()
    async with Crib([close]) as crib:
        for name in ("one", "two"):
            session = await crib.open(name, owner="ada", namespaces=["desk"])
            await session.call("desk.close", {"ticket": "T-1", "secret": "hunter2"})
        await session.call("desk.close", {"ticket": "bad"})
        await session.call("desk.close", {"tick": 1})
        for name in ("one", "two"):
            for event in await crib.store.read(name):
                usage.take(name, event)
    numbers = usage.numbers()
    desk = numbers["desk.close"]
    assert {key: desk[key] for key in ("calls", "failures", "rejections", "sessions")} == {
        "calls": 4,
        "failures": {"invalid_arguments": 2},
        "rejections": {"check-ticket": 1},
        "sessions": 2,
    }
    assert desk["hints"] >= 1
    assert 0 < desk["median_ms"] <= desk["p95_ms"] < 60_000
    assert desk["tokens_in"] > 20
    assert desk["tokens_out"] > 10
    assert desk["last_used"] > 0
    assert "T-1" not in str(numbers)
    assert "hunter2" not in str(numbers)


@requirement("yaml.use.1")
def test_times_are_told_by_median_and_ninety_fifth_of_a_hundred() -> None:
    usage = ToolUsage()
    for number in range(1, 101):
        call = f"c{number}"
        said: dict[str, Any] = {"ok": True, "data": None, "duration_ms": number}
        for event in events((call, "accepted", {"tool": "t"}), (call, "started", {}), (call, "done", said)):
            usage.take("s", event)
    numbers = usage.numbers()["t"]
    assert (numbers["median_ms"], numbers["p95_ms"]) == (50.5, 95)


@requirement("yaml.use.1")
def test_calls_that_never_started_have_no_time() -> None:
    numbers = used(3, 1).numbers()["exa.search"]
    assert (numbers["calls"], numbers["median_ms"], numbers["p95_ms"]) == (3, None, None)


@requirement("yaml.use.1")
def test_what_was_called_before_the_time_that_counts_is_left_out() -> None:
    usage = ToolUsage(since=100.0)
    for event in events(("old", "accepted", {"tool": "t"}), at=98.0) + events(("old", "done", {"ok": True}), at=105.0):
        usage.take("s", event)
    assert usage.numbers() == {}
    assert usage.sessions == set()


def test_a_call_that_was_unknown_and_is_settled_counts_as_what_it_became() -> None:
    usage = ToolUsage()
    unknown: dict[str, Any] = {"ok": False, "failure": {"code": "unknown", "message": "?"}}
    for event in events(("c", "accepted", {"tool": "t"}), ("c", "started", {}), ("c", "done", unknown)):
        usage.take("s", event)
    assert usage.numbers()["t"]["failures"] == {"unknown": 1}
    usage.take("s", Event(4, 9.0, "c", "settled", encode({"ok": True, "data": 1})))
    assert usage.numbers()["t"]["failures"] == {}
    assert usage.numbers()["t"]["calls"] == 1


# Advice


@requirement("yaml.use.2")
def test_a_tool_of_ten_uses_a_session_in_five_sessions_is_to_be_promoted() -> None:
    assert advice(used(50, 5), Registry()) == [RegistryAdvice("exa", "promote", "50 uses in 5 sessions")]
    assert advice(used(49, 5), Registry()) == []
    assert advice(used(80, 4), Registry()) == []


@requirement("yaml.use.2")
def test_a_tool_that_is_always_there_is_not_promoted() -> None:
    registry = read({"tools": {"exa": {"tier": 3}}, "profiles": {"dev": {"always_loaded": ["exa"]}}})
    assert advice(used(50, 5), registry) == []


@requirement("yaml.use.2")
def test_a_tool_used_less_than_once_in_five_sessions_is_to_be_demoted_unless_it_is_essential() -> None:
    registry = read({"tools": {"git": {"tier": 1}, "graph": {"tier": 1, "essential": True}, "exa": {"tier": 3}}})
    assert advice(used(10, 10), registry) == [RegistryAdvice("git", "demote", "0 uses in 10 sessions")]
    assert advice(used(4, 4), registry) == []
    assert advice(used(2, 2, "git.log", used(10, 10)), registry) == []
    assert [one.tool for one in advice(used(1, 1, "git.log", used(10, 10)), registry)] == ["git"]


@requirement("yaml.use.2")
def test_commands_of_one_file_count_together() -> None:
    both = used(25, 5, "exa.find", used(25, 5, "exa.search"))
    assert advice(both, read({"tools": {"Exa": {"tier": 3}}})) == [
        RegistryAdvice("Exa", "promote", "50 uses in 5 sessions")
    ]
