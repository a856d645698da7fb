"""What a model was sent, over the API: to the owner alone, within bounds, and without what nobody may see."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tests.agent.place import UNGUARDED, calls, text
from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.serve.api.prompts import HIDDEN, LONGEST
from toolcrib.serve.keyring import Keyring

SECRET = "swordfish-and-more"


@tool(read_only=True)
async def sign(password: Annotated[str, Field(json_schema_extra={"format": "password"})]) -> str:
    """Sign in."""
    return f"signed in with {password}"


def crib(*turns: Any) -> Crib:
    agent = Agent(name="desk", instructions="The password is 7.", tools=["*"])
    return Crib([sign], agents=Agents([agent], model=ScriptedModel({"desk": list(turns)})), policy=UNGUARDED)


async def spoken(served: Desk, *messages: str) -> tuple[str, list[int]]:
    """A session in which these were sent, and the events of its turns."""
    session = await served.open()
    for message in messages:
        await served.post(f"/sessions/{session}/messages", text=message, wait=True)
    events = (await served.get(f"/sessions/{session}/events", limit=1000))["items"]
    return session, [event["seq"] for event in events if event["kind"] == "turn_started"]


@requirement("console.waterfall.2")
async def test_a_prompt_has_all_that_the_model_saw_and_no_secret() -> None:
    async with desk(crib(calls(("sign", {"password": SECRET})), text("done"))) as served:
        session, (_, second) = await spoken(served, "sign in")
        reply = await served.ask("GET", f"/sessions/{session}/prompts/{second}")
        prompt = reply.json()
    assert prompt["instructions"] == "The password is 7."
    assert "sign" in [one["name"] for one in prompt["tools"]]
    assert [one["role"] for one in prompt["messages"]] == ["user", "assistant", "tool"]
    assert (prompt["exact"], prompt["same"], prompt["total"], prompt["notes"]) == (True, 1, 3, [])
    assert prompt["messages"][1]["calls"][0]["name"] == "sign"
    assert SECRET not in reply.text


@requirement("console.waterfall.2")
async def test_instructions_are_for_who_looks_after_the_server_and_the_rest_for_the_owner() -> None:
    made = crib(text("one"))
    keys = Keyring(lambda: made.store, made.pipeline.clock.now)
    async with desk(made, guard=keys) as served:
        root, ada, eve = [
            served.as_((await keys.add(owner, by="test", scopes=scopes))[0])
            for owner, scopes in (("root", ["admin"]), ("ada", []), ("eve", []))
        ]
        session, (turn,) = await spoken(ada, "hello")
        path = f"/sessions/{session}/prompts/{turn}"
        assert await eve.refused("GET", path) == (404, "not_found")
        hers, theirs = await ada.get(path), await root.get(path)
    assert (hers["instructions"], hers["notes"], hers["messages"][0]["text"]) == (None, [HIDDEN], "hello")
    assert (theirs["instructions"], theirs["notes"]) == ("The password is 7.", [])


async def test_a_prompt_comes_in_pieces_of_bounded_size() -> None:
    texts = [letter * 400_000 for letter in "uvwxyz"]
    async with desk(crib(*map(text, "abcdef"))) as served:
        session, turns = await spoken(served, *texts)
        path = f"/sessions/{session}/prompts/{turns[-1]}"
        first = await served.get(path)
        rest = await served.get(path, first=first["next"])
    assert (first["total"], len(first["messages"]) + len(rest["messages"])) == (11, 11)
    assert (first["messages"][0]["cut"], len(first["messages"][0]["text"])) == (400_000, LONGEST)
    assert rest["messages"][-1]["text"] == "z" * LONGEST


async def test_what_is_no_request_is_not_found() -> None:
    async with desk(crib(text("a"))) as served:
        session, _ = await spoken(served, "hello")
        for seq in ("1", "999", "x", "9" * 30):
            assert await served.refused("GET", f"/sessions/{session}/prompts/{seq}") == (404, "not_found")
