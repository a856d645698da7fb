"""The shared stories, whole, on every store."""

from pathlib import Path
from typing import Any

import pytest

from tests.agent.stories import Story
from tests.requirements import requirement
from tests.session.place import Place
from tests.shared import case_data


def stories() -> list[Any]:
    return [pytest.param(one, id=one["id"]) for one in case_data("agents/runs.json")]


@requirement("agents.run.2", "agents.run.3", "agents.model.2")
@pytest.mark.parametrize("story", stories())
@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_a_story_comes_out_as_it_must(
    story: dict[str, Any], store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = "memory:" if store == "memory" else f"sqlite:///{tmp_path}/log.db"
    if store == "postgres":
        url = request.getfixturevalue("postgres_url")
    await Story(story, Place(url)).tell()
