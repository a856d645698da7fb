"""Secrets under names that nobody declared: misspelt, misplaced, or of the wrong type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, only, unsaid, whole
from tests.requirements import requirement
from toolcrib import Tool, tool

Password = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "secret"})]


@dataclass
class Account:
    user: str
    password: Password


@tool(read_only=True)
async def log_in(password: Password, user: str = "", port: int = 22) -> str:
    """Log in."""
    return "in"


@tool(read_only=True)
async def link(account: Account, note: str = "") -> str:
    """Link an account."""
    return "linked"


OPEN = {
    "type": "object",
    "properties": {"user": {"type": "string"}, "password": {"type": "string", "format": "password"}},
}


async def _greet(ctx: Any, values: Mapping[str, Any]) -> str:
    return f"hello {values}"


foreign = Tool(name="foreign", description="Take whatever comes.", input_schema=OPEN, run=_greet, effect="read")


@requirement("security.secret.1")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("log_in", {"user": "ada", "pasword": "hunter2"}),
        ("log_in", {"user": "ada", "pasword": ["hunter2"]}),
        ("log_in", {"user": "ada", "pasword": {"value": {"of": "hunter2"}}}),
        ("log_in", {"user": "ada", "Password": "hunter2", "password": "other2"}),
        ("log_in", {"port": "hunter2", "password": "other2"}),
        ("log_in", {"user": {"password": "hunter2"}, "password": "other2"}),
        ("log_in", {"user": "ada", "auth": {"password": "hunter2"}}),
        ("link", {"account": {"user": "ada", "pass": "hunter2"}}),
        ("link", {"account": {"user": "ada", "password": "x", "old": "hunter2"}}),
        ("link", {"account": ["ada", "hunter2"]}),
        ("link", {"acount": {"user": "ada", "password": "hunter2"}}),
        ("foreign", {"user": "ada", "pasword": "hunter2"}),
        ("foreign", {"user": "ada", "login": {"password": "hunter2"}}),
        ("foreign", {"user": 5, "pasword": "hunter2"}),
    ],
)
async def test_a_secret_under_another_name_reaches_no_log(open_crib: OpenCrib, name: str, args: dict[str, Any]) -> None:
    session = await (await open_crib(log_in, link, foreign)).open(owner="ada")
    result = await session.call(name, args)
    assert "hunter2" not in result.text
    assert await unsaid(session, "hunter2")
    assert "•••" in await whole(session)


@requirement("security.secret.1")
async def test_what_is_declared_and_fits_is_still_seen(open_crib: OpenCrib) -> None:
    session = await (await open_crib(log_in)).open(owner="ada")
    result = await session.call("log_in", {"user": "ada", "pasword": "hunter2"})
    assert code(result) == "invalid_arguments"
    assert "pasword" in result.text
    assert (await only(session, "accepted"))["args"] == {"user": "ada", "pasword": "•••"}


@requirement("security.secret.1")
async def test_a_tool_without_secrets_shows_what_did_not_fit(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def look(place: str) -> str:
        """Look."""
        return place

    session = await (await open_crib(look)).open(owner="ada")
    await session.call("look", {"plaze": "attic"})
    assert (await only(session, "accepted"))["args"] == {"plaze": "attic"}
