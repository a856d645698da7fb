"""Skills of a server that does not give out what it listed."""

import sys

import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import PEERS, code, message, opened
from toolcrib.sources.mcp import Mcp

REFUSED = "SKILL.md of the skill pdf is not what the server listed"


@requirement("gateway.skills.4")
@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("honest", (None, "")),
        ("digest", ("unavailable", f"{REFUSED}: its digest is another")),
        ("size", ("unavailable", f"{REFUSED}: its size is another")),
        ("frontmatter", ("unavailable", f"{REFUSED}: its frontmatter is another")),
        ("unlisted", ("unavailable", f"{REFUSED}: no digest is listed")),
    ],
)
async def test_a_skill_is_read_only_as_it_was_listed(kind: str, expected: tuple[str | None, str]) -> None:
    server = Mcp(sys.executable, str(PEERS / "skills.py"), kind, name="far", revision="older", required=True)
    async with opened(server) as (_, session):
        first = await session.call("far.read_skill", {"skill": "pdf"})
        assert (code(first), message(first)) == expected
        assert (await session.call("far.read_skill", {"skill": "pdf", "file": "FORMS.md"})).data == "Forms"
