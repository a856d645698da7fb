"""Where the model of a provider is: its name, the environment, the settings of an agent, and places of one's own."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra toolcrib[models] is not installed")

from tests.agent.speaker import Speaker, answer, sse
from tests.agent.test_providers_errors import KEY, said
from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, ModelError, ProviderModel, Providers
from toolcrib.agent.models import Delta, Finish, Text, Usage
from toolcrib.agent.providers.endpoint import PROVIDERS, SETTINGS


@tool(read_only=True)
async def nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize("name", ["openai-chat:gpt-5", "openai-chat/gpt-5"])
async def test_the_name_in_a_definition_file_is_enough(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.yaml").write_text(f"model: {name}\ninstructions: You help.\n")
    async with Speaker(answer("Hello.")) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        async with Crib([nothing], agents=Agents(tmp_path)) as crib:
            session = await crib.open(owner="ada")
            assert (await asyncio.wait_for(session.send("hi"), 60)).answer == "Hello."


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("azure:m", {"azure_endpoint": "URL", "api_version": "2024-10-21", "api_key": KEY}),
        ("ollama/m:8b", {"base_url": "URL/v1"}),
        ("house:m", {"provider": "openai-chat", "base_url": "URL"}),
        ("litellm:a/b", {"api_base": "URL", "api_key": KEY}),
    ],
)
async def test_others_that_speak_like_openai_work_too(name: str, options: dict[str, str]) -> None:
    async with Speaker(answer("Hello.")) as url:
        given = {key: value.replace("URL", url) for key, value in options.items()}
        async with ProviderModel(name, given) as one:
            assert Text("Hello.") in await said(one)


async def test_google_is_reached_with_a_client_of_its_own() -> None:
    part = {"content": {"parts": [{"text": "Hello."}], "role": "model"}, "finishReason": "STOP"}
    used = {"promptTokenCount": 5, "candidatesTokenCount": 2, "cachedContentTokenCount": 3, "totalTokenCount": 7}
    speaker = Speaker(sse({"candidates": [part], "usageMetadata": used, "modelVersion": "m"}))
    async with speaker as url, ProviderModel("google:m", {"base_url": url}) as one:
        assert await said(one) == [Text("Hello."), Usage(5, 2, 3), Finish("stop")]
    assert "x-goog-api-key: none" in speaker.headers[0].lower()


async def test_an_agent_that_names_another_address_does_not_get_the_key_of_the_first() -> None:
    speaker = Speaker(answer("Hello."))
    async with speaker as url, ProviderModel("house:m", {"provider": "openai-chat", "api_key": KEY}) as one:
        elsewhere = {"provider": "openai-chat", "base_url": url}
        assert Text("Hello.") in await said(one, settings={"provider": elsewhere})
    assert KEY not in speaker.headers[0]


async def test_settings_of_an_agent_say_where_its_provider_is_and_which_key_it_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-itself")
    monkeypatch.setenv("HOUSE_KEY", KEY)
    speaker = Speaker(answer("One."), answer("Two."))
    async with speaker as url:
        place = {"base_url": url}
        agents = [
            Agent(name="open", model="openai-chat:m", model_settings={"provider": place, "max_tokens": 7}),
            Agent(name="shut", model="house:m", model_settings={"provider": {"api_key_env": "HOUSE_KEY"}}),
        ]
        house = Providers({"house": {"provider": "openai-chat", **place}})
        async with Crib([nothing], agents=Agents(agents, models=house)) as crib:
            session = await crib.open(owner="ada")
            assert (await session.send("hi", agent="open")).answer == "One."
            assert (await session.send("hi", agent="shut")).answer == "Two."
    assert speaker.requests[0]["max_completion_tokens"] == 7
    assert "sk-of-openai-itself" not in speaker.headers[0]
    assert f"Bearer {KEY}" in speaker.headers[1]


@pytest.mark.parametrize(
    ("name", "settings", "code", "words"),
    [
        ("gpt-5", {}, "invalid_arguments", "'gpt-5' is no model: name it as provider:model-name"),
        ("opnai:gpt-5", {}, "not_found", "among others (did you mean 'openai'?)"),
        ("openai:gpt-5", {}, "denied", "set OPENAI_API_KEY"),
        ("anthropic:m", {}, "denied", "set ANTHROPIC_API_KEY"),
        ("ollama:m", {}, "denied", "set OLLAMA_BASE_URL"),
        ("openai:m", {"provider": {"api_key_env": "NO_SUCH"}}, "denied", "openai needs a key: set NO_SUCH"),
        ("openai:m", {"provider": {"api_key": KEY}}, "invalid_arguments", "api_key_env"),
        ("openai:m", {"provider": {"base_ulr": "x"}}, "invalid_arguments", "did you mean 'base_url'?"),
        ("openai:m", {"provider": "x"}, "invalid_arguments", "no mapping"),
        ("ollama:m", {"provider": {"base_url": "http://x"}, "temperatur": 1}, "invalid_arguments", "'temperature'?"),
        ("mistral:m", {}, "failed", "pip install 'pydantic-ai-slim[mistral]'"),
    ],
)
async def test_a_model_that_is_not_set_up_says_what_to_do(
    name: str, settings: dict[str, Any], code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL", "NO_SUCH"):
        monkeypatch.delenv(variable, raising=False)
    agents = Agents([Agent(name="main", model=name, model_settings=settings)])
    async with Crib([nothing], agents=agents) as crib:
        session = await crib.open(owner="ada")
        outcome = await session.send("hi")
    assert (outcome.reason, outcome.code) == ("failed", code)
    assert words in (outcome.detail or "")
    assert KEY not in (outcome.detail or "")


async def test_a_key_that_comes_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATER", raising=False)
    async with (
        Speaker(answer("Hello.")) as url,
        ProviderModel("openai-chat:m", {"base_url": url, "api_key_env": "LATER"}) as one,
    ):
        with pytest.raises(ModelError, match="set LATER"):
            await said(one)
        monkeypatch.setenv("LATER", KEY)
        assert Text("Hello.") in await said(one)


def test_a_model_works_in_one_event_loop_after_the_other() -> None:
    async def once(one: ProviderModel) -> list[Delta]:
        async with Speaker(answer("Hello.")) as url:
            return await said(one, settings={"provider": {"base_url": url}})

    one = ProviderModel("openai-chat:m")

    async def closed() -> list[Delta]:
        async with one:
            return await once(one)

    assert Text("Hello.") in asyncio.run(closed())
    assert Text("Hello.") in asyncio.run(closed())


@requirement("findings.agents.4")
def test_settings_that_are_held_against_others_are_those_of_a_request() -> None:
    from pydantic_ai.settings import ModelSettings

    assert set(SETTINGS) <= set(ModelSettings.__annotations__)
    assert list(ProviderModel("openai:m").problems(dict.fromkeys(ModelSettings.__annotations__))) == []
    problems = list(ProviderModel("opnai:gpt-5").problems({"temprature": 1, "openai_store": True, "media": []}))
    assert [(key, close) for key, _, close in problems] == [(None, "openai"), ("temprature", "temperature")]


@requirement("findings.agents.4")
def test_every_provider_of_the_package_is_known_and_no_other_is() -> None:
    from pydantic_ai.providers import infer_provider_class

    cases = re.findall(r"^        case (.+):$", inspect.getsource(infer_provider_class), re.MULTILINE)
    there = {name for case in cases for name in re.findall(r"'([^']+)'", case)}
    assert set(PROVIDERS) <= there
    for known in (*sorted(there), "gateway/openai"):
        assert list(ProviderModel(f"{known}:m").problems({})) == []
    assert [key for key, _, _ in ProviderModel("acme:m").problems({"zeal": 1})] == [None, "zeal"]


@requirement("findings.agents.4")
def test_an_option_is_held_against_the_provider_that_is_really_asked() -> None:
    house = {"provider": "openai-chat", "base_url": "http://127.0.0.1:9"}
    assert list(ProviderModel("house:m").problems({"provider": house})) == []
    problems = list(ProviderModel("house:m").problems({"provider": house | {"wings": 2}}))
    assert problems == [("provider", "a provider has no option 'wings'", None)]
