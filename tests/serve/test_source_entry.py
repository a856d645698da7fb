"""What an administrator may describe as a source, and the source that comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib.errors import Refused
from toolcrib.serve.source_entry import SourceEntry, SourceLimits, SourceRules, source_of
from toolcrib.sources.mcp import Mcp
from toolcrib.sources.openapi import OpenApi
from toolcrib.types import Limits

URL = "https://tools.example/mcp"
DOCUMENT = "https://shop.example/openapi.json"
OPEN = SourceRules(programs=True, secrets=("env:KIT_*", "file:/run/*"))


def made(rules: SourceRules = OPEN, **fields: Any) -> Any:
    return source_of(SourceEntry("kit", **fields), rules)


def refusal(rules: SourceRules = OPEN, **fields: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        made(rules, **fields)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({}, "invalid_arguments", "A source is either mcp or openapi"),
        ({"mcp": URL, "openapi": DOCUMENT}, "invalid_arguments", "A source is either mcp or openapi"),
        ({"mcp": " "}, "invalid_arguments", "mcp is empty"),
        ({"mcp": "serve 'kit"}, "invalid_arguments", "mcp is no command: No closing quotation"),
        ({"mcp": URL, "env": {"A": "env:KIT_A"}}, "invalid_arguments", "An address has no process to give env to"),
        ({"mcp": "kit", "headers": {"A": "env:KIT_A"}}, "invalid_arguments", "A command takes no headers"),
        ({"mcp": URL, "headers": {"A": "s3cret"}}, "invalid_arguments", "The value of A is no reference to a secret"),
        ({"mcp": "kit", "env": {"A": "s3cret"}}, "invalid_arguments", "The value of A is no reference to a secret"),
        ({"mcp": URL, "headers": {"A": "env:HOME"}}, "denied", "This server does not let added sources use env:HOME"),
        ({"mcp": "kit", "limits": SourceLimits(rate="fast")}, "invalid_arguments", "limits: rate: 'fast' is no rate"),
        ({"mcp": "kit", "account": True}, "invalid_arguments", "account: "),
        ({"openapi": "shop.yaml"}, "invalid_arguments", "openapi is no address"),
        ({"openapi": "https://u:p@shop.example/a.json"}, "invalid_arguments", "A secret stands in the address"),
        ({"openapi": DOCUMENT, "headers": {"A": "s3cret"}}, "invalid_arguments", "The value of A is no reference"),
    ],
)
def test_what_describes_no_source_is_refused_with_the_reason(fields: dict[str, Any], code: str, message: str) -> None:
    refused = refusal(**fields)
    assert refused[0] == code
    assert refused[1].startswith(message)


@pytest.mark.parametrize(
    "word",
    [
        "https://ada@tools.example/mcp",
        "https://:pass@tools.example/mcp",
        "https://ada:pass@tools.example/mcp",
        "https://tools.example/mcp?api_key=abc",
        "https://tools.example/mcp?TOKEN=abc",
        "kit --password=abc",
        "kit --proxy https://ada@proxy.example",
        "kit --credentials=abc",
    ],
)
def test_an_address_or_a_command_with_a_secret_in_it_is_refused(word: str) -> None:
    assert refusal(mcp=word) == ("invalid_arguments", "A secret stands in the address or the command")


@pytest.mark.parametrize("word", ["kit --token=$TOKEN", "kit ada@tools.example", f"kit {URL}", "kit --token abc"])
def test_a_command_in_which_no_secret_can_be_seen_is_taken(word: str) -> None:
    assert made(mcp=word).server.settings.command == tuple(word.split())


@pytest.mark.parametrize(
    "extra",
    [
        {"env": {"A": "env:KIT_A"}},
        {"account": True},
        {"limits": SourceLimits(timeout_s=1)},
        {"breaker": 0},
        {"share": "all"},
        {"connections": 1},
        {"start_s": 1.0},
        {"idle_s": 1.0},
        {"revision": "auto"},
        {"tasks": False},
        {"prefix": ""},
    ],
)
def test_a_document_takes_none_of_the_settings_of_a_server(extra: dict[str, Any]) -> None:
    expected = "An OpenAPI document takes name, trusted, headers and timeout"
    assert refusal(openapi=DOCUMENT, **extra) == ("invalid_arguments", expected)


def test_a_document_has_its_name_its_trust_its_headers_and_its_timeout() -> None:
    plain = made(openapi=DOCUMENT)
    assert isinstance(plain, OpenApi)
    assert (plain.name, plain.namespaces, plain.trusted) == ("kit", ("kit",), False)
    assert made(openapi=DOCUMENT, trusted=True, headers={"A": "env:KIT_A"}, timeout=5.0).trusted


@requirement("gateway.managed.1")
def test_rules_say_who_may_add_what() -> None:
    closed = SourceRules(allowed=False, programs=True)
    assert refusal(closed, mcp=URL) == ("denied", "This server lets nobody add sources")
    no_programs = SourceRules()
    for command in ("kit", f"kit {URL}", ["kit", "stdio"], [URL, "--now"]):
        assert refusal(no_programs, mcp=command) == ("denied", "This server lets nobody add sources that are programs")
    for address in (URL, [URL], "http://tools.example/mcp"):
        assert made(no_programs, mcp=address).server.settings.url is not None
    assert refusal(SourceRules(), mcp=URL, headers={"A": "env:KIT_A"})[0] == "denied"
    assert made(mcp=URL, headers={"A": "file:/run/a", "B": "env:KIT_B"}).server.settings.headers.keys() == {"A", "B"}


def test_the_settings_of_a_server_are_those_of_its_entry() -> None:
    plain, full = (
        made(mcp=["kit", "a b"]),
        made(
            mcp="kit 'a b'",
            trusted=True,
            env={"A": "env:KIT_A"},
            share="owner",
            connections=3,
            start_s=4.0,
            idle_s=5.0,
            revision="older",
            tasks=False,
            prefix="k_",
        ),
    )
    assert isinstance(plain, Mcp)
    assert (plain.name, plain.trusted, full.trusted) == ("kit", False, True)
    assert plain.server.settings.command == full.server.settings.command == ("kit", "a b")
    settings = full.server.settings
    assert (settings.share, settings.connections, settings.start_s, settings.idle_s) == ("owner", 3, 4.0, 5.0)
    assert (settings.revision, settings.tasks, settings.prefix) == ("older", False, "k_")
    assert (dict(settings.env), dict(plain.server.settings.env)) == ({"A": "env:KIT_A"}, {})


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({}, Limits()),
        ({"timeout": 7.0}, Limits(timeout_s=7.0)),
        ({"limits": SourceLimits(timeout_s=3.0, rate="5/s")}, Limits(timeout_s=3.0, rate="5/s")),
        ({"limits": SourceLimits(timeout_s=3.0), "timeout": 7.0}, Limits(timeout_s=7.0)),
        ({"breaker": 4}, Limits(repeat=4)),
        ({"breaker": 0}, Limits(repeat=None)),
    ],
)
def test_the_bounds_of_its_tools_are_those_of_its_entry(fields: dict[str, Any], limits: Limits) -> None:
    assert made(mcp=URL, **fields)._limits == limits
