"""Processes over one store that declare the keys of the state differently are told so when they start."""

import logging
from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.state import Key


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db"
    return str(request.getfixturevalue("postgres_url"))


@requirement("reliability.state.6")
async def test_a_process_that_declares_other_keys_than_a_living_one_is_told(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "toolcrib")
    async with Crib(store=url, state_keys={"visits": "add", "notes": Key("append", "run")}) as one:
        assert one.warnings == []
        async with Crib(store=url, state_keys={"visits": "add", "notes": Key("append", "run")}) as same:
            assert same.warnings == []
        async with Crib(store=url) as other:
            (warning,) = other.warnings
    assert f"differ from those of {one.pipeline.worker}" in warning
    assert "notes is append for a run there and exclusive here, visits is add there and exclusive here" in warning
    assert warning in caplog.text


@requirement("reliability.state.6")
async def test_declarations_that_have_changed_since_the_last_start_are_told_of_once(url: str) -> None:
    async with Crib(store=url, state_keys={"visits": "add"}) as crib:
        assert crib.warnings == []
    async with Crib(store=url, state_keys={"visits": "append"}) as crib:
        (warning,) = crib.warnings
    assert "visits is add there and append here" in warning
    async with Crib(store=url, state_keys={"visits": "append"}) as crib:
        assert crib.warnings == []


@requirement("reliability.state.6")
async def test_without_declarations_nothing_is_noted(tmp_path: Path) -> None:
    async with Crib(store=f"sqlite:///{tmp_path}/log.db") as crib:
        assert (crib.warnings, await crib.store.sessions()) == ([], [])


@requirement("security.secret.4")
async def test_a_process_with_another_key_for_secrets_than_a_living_one_is_told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "toolcrib")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first, second = "a" * 40, "b" * 40
    async with Crib(store=url, secret_key=first) as one:
        assert one.warnings == []
        for same in (first, f"{first} {second}"):
            async with Crib(store=url, secret_key=same) as alike:
                assert alike.warnings == []
        for different in (second, f"{second} {first}", None):
            async with Crib(store=url, secret_key=different) as other:
                (warning,) = other.warnings
            assert f"secret_key differs from that of {one.pipeline.worker}" in warning
            assert warning in caplog.text
        assert not (tmp_path / "state").exists()
        (row,) = await one.store.sessions()
        assert not [event for event in await one.store.read(row.id) if first.encode() in event.json]
