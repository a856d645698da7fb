"""Variables of the environment."""

import re
from pathlib import Path

import pytest

import toolcrib
from tests.cli.team import Team
from tests.requirements import requirement
from toolcrib.cli.known_variables import KNOWN


@requirement("findings.config.5")
def test_a_variable_that_is_almost_one_of_ours_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_STROE", "memory:")
    monkeypatch.setenv("TOOLCRIB_KEY_OF_ADA", "x")
    ran = Team(tmp_path).inside("sessions", "list", "--json")
    assert ran.err == "The variable TOOLCRIB_STROE does nothing: did you mean TOOLCRIB_STORE?\n"


def test_all_variables_that_are_read_are_known() -> None:
    texts = [path.read_text("utf-8") for path in Path(toolcrib.__file__).parent.rglob("*.py")]
    names = {name for text in texts for name in re.findall(r"\bTOOLCRIB_([A-Z][A-Z_]*[A-Z])\b", text)}
    assert names == set(KNOWN)
