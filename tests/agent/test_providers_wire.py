"""How our history looks to a provider, and what there is without the packages of any."""

import re
import subprocess
import sys
from typing import Any

import pytest

from toolcrib.agent.models import Message, ModelCall, ProviderData, Usage
from toolcrib.agent.providers import wire
from toolcrib.extras import install

CALLS = (ModelCall("c1", "look", '{"n": 1}'), ModelCall("c2", "look", "{"))
PARTS = [
    {"kind": "thinking", "content": "hm", "signature": "s1", "provider_name": "p"},
    {"kind": "text", "length": 2},
    {"kind": "text", "length": 1, "id": "t2", "provider_name": "p"},
    {"kind": "call", "provider_details": {"thought_signature": "s2"}, "provider_name": "p"},
    {"kind": "call"},
]


@pytest.mark.parametrize(
    "name", ["shop.find", "9lives", "-x", "ä", "", "a" * 65, "a" * 200, "no such tool", "../../etc", "look\ud800"]
)
def test_any_name_is_made_one_that_providers_take(name: str) -> None:
    made = wire.legal(name)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", made)
    assert made == wire.legal(name) != wire.legal(f"{name}?")
    assert wire.ToolNames([name]).meant(made) == name


def test_a_name_that_providers_take_stays() -> None:
    assert [wire.legal(name) for name in ("find_order", "shop__find", "a" * 64)] == [
        "find_order",
        "shop__find",
        "a" * 64,
    ]
    assert wire.ToolNames(["look"]).meant("other") == "other"


def kinds(messages: list[Any]) -> list[list[str]]:
    return [[part.part_kind for part in one.parts] for one in messages]


def test_requests_and_replies_alternate() -> None:
    pytest.importorskip("pydantic_ai")
    history = [
        *(Message("system", "S"), Message("user", "a"), Message("user", "b"), Message("assistant", "x", CALLS)),
        *(Message("tool", "1", call="c1"), Message("tool", "2", call="c2"), Message("user", "c")),
    ]
    made = wire.messages(history, "p")
    assert kinds(made) == [
        ["user-prompt", "user-prompt"],
        ["text", "tool-call", "tool-call"],
        ["tool-return", "tool-return", "user-prompt"],
    ]
    assert [part.tool_name for part in made[2].parts[:2]] == ["look", "look"]  # type: ignore[union-attr]
    assert kinds(wire.messages([Message("assistant", "x")], "p"))[0] == ["user-prompt"]
    assert kinds(wire.messages([], "p")) == [["user-prompt"]]


def test_what_a_model_left_comes_back_to_it_alone_and_only_where_it_fits() -> None:
    pytest.importorskip("pydantic_ai")
    kept = {"provider_name": "p", "parts": PARTS}
    plain = [["user-prompt"], ["text", "tool-call", "tool-call"]]
    whole = Message("assistant", "abc", CALLS, kept=kept)
    request, reply = wire.messages([whole], "p")
    assert kinds([request, reply])[1] == ["thinking", "text", "text", "tool-call", "tool-call"]
    thinking, first, second, call, _ = reply.parts
    assert (thinking.signature, first.content, second.content) == ("s1", "ab", "c")  # type: ignore[union-attr]
    assert (call.args, call.tool_call_id) == ('{"n": 1}', "c1")  # type: ignore[union-attr]
    assert call.provider_details == {"thought_signature": "s2"}  # type: ignore[union-attr]
    assert kinds(wire.messages([whole], "another")) == plain
    assert kinds(wire.messages([Message("assistant", "abcd", CALLS, kept=kept)], "p")) == plain
    assert kinds(wire.messages([Message("assistant", "abc", CALLS[:1], kept=kept)], "p"))[1] == ["text", "tool-call"]


def test_usage_adds_up_and_says_only_what_is_known() -> None:
    one, two = Usage(10, 2), Usage(20, 1, 15, 0.001)
    assert (one + one).data() == {"input": 20, "output": 4, "total": 24}
    assert (one + two).data() == {"input": 30, "output": 3, "total": 33, "cached": 15, "cost": 0.001}
    assert Usage.read((two + two).data()) == two + two
    assert Usage.read(None) == Usage()
    assert ProviderData({}).data == {}


WITHOUT = """
import asyncio, sys
sys.modules["pydantic_ai"] = None
from toolcrib import Crib
from toolcrib.agent import Agent, Agents
async def main():
    async with Crib([], agents=Agents([Agent(name="main", model="openai:gpt-5")])) as crib:
        outcome = await (await crib.open(owner="ada")).send("hi")
        print(outcome.code, outcome.detail)
asyncio.run(main())
"""


@pytest.mark.process
def test_without_the_extra_a_model_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120, check=True)
    advice = f"Models of openai need a package that is not installed: {install('models')}"
    assert done.stdout.strip() == f"failed {advice}"


@pytest.mark.process
def test_agents_do_not_import_the_packages_of_providers() -> None:
    code = "import sys, toolcrib.agent; print({'pydantic_ai', 'openai', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "set()"
