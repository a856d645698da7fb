"""Lines of a server's log show no secrets."""

import json
import logging
from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib.cli.server_log import JsonLines, TextLines, secrets_of
from toolcrib.cli.terminal import Choice

SECRETS = [
    "cannot reach postgresql://ada:open-sesame@db/shop",
    "refused: Authorization: Bearer open-sesame",
    "GET /?token=open-sesame&x=1",
    "the server said: open-sesame is wrong",
]


def record(text: str, error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("toolcrib.x", logging.ERROR, __file__, 1, "%s", (text,), info)


@requirement("project.log.1")
@pytest.mark.parametrize("text", SECRETS)
def test_no_line_shows_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    crib = tmp_path / "crib.yaml"
    crib.write_text('sources: [{mcp: "x", env: {KEY: "${SHOP_KEY}"}}]\n', "utf-8")
    monkeypatch.setenv("SHOP_KEY", "open-sesame")
    secrets = secrets_of(Choice(str(crib)))
    for made in (TextLines(secrets), JsonLines(secrets), JsonLines(secrets, debug=True)):
        line = made.format(record("it failed", ValueError(text)))
        assert "open-sesame" not in line + made.format(record(text))
        assert "***" in line


@requirement("project.log.1")
def test_a_message_of_many_lines_is_one_line() -> None:
    assert len(TextLines().format(record("one\ntwo\x1b[2J")).splitlines()) == 1
    assert json.loads(JsonLines().format(record("one\ntwo")))["message"] == "one\ntwo"
