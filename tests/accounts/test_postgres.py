"""Accounts whose vault is in PostgreSQL: the same promises, and nothing readable in any of its tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.accounts.place import OpenCrib, connect, cribs, question, shop, whoami
from tests.accounts.service import Service
from tests.requirements import requirement
from toolcrib import Crib


@pytest.fixture
async def open_crib(postgres_url: str, tmp_path: Path) -> AsyncIterator[Any]:
    async with cribs(postgres_url, tmp_path / "secrets.key") as opened:
        yield opened


async def dump(url: str) -> str:
    """Every row of every table as text."""
    database = await asyncpg.connect(url)
    try:
        tables = await database.fetch("SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|info)'")
        texts = []
        for schema, table in tables:
            rows = await database.fetch(f'SELECT t::text AS row FROM "{schema}"."{table}" t')
            texts += [row["row"] for row in rows]
        return "\n".join(texts)
    finally:
        await database.close()


@requirement("accounts.secret.1")
async def test_an_account_is_connected_renewed_and_removed_and_no_table_holds_a_token(
    open_crib: OpenCrib, service: Service, postgres_url: str
) -> None:
    crib = await open_crib(service)
    ada = await crib.open("s", owner="ada")
    call = await ada.submit("whoami", {})
    await question(ada, call.id)
    await connect(crib, "ada", "ada@shop")
    assert (await ada.result(call.id)).data["login"] == "ada@shop"
    crib = await open_crib(service)  # after a restart
    ada = await crib.open("s", owner="ada")
    assert (await ada.call("whoami", {})).ok
    first = service.secrets
    service.expire()
    assert (await ada.call("whoami", {})).ok
    await crib.store.flush()
    kept = await dump(postgres_url)
    assert "account_renewed" in kept
    for secret in {*first, *service.secrets}:
        assert secret not in kept
        assert secret.encode().hex() not in kept
    await crib.accounts.remove("ada", "shop")
    assert not await crib.accounts.connected()


@requirement("accounts.secret.1")
async def test_two_processes_over_one_database_renew_a_token_once(
    open_crib: OpenCrib, service: Service, postgres_url: str, tmp_path: Path
) -> None:
    crib = await open_crib(service)
    other = Crib(
        [whoami],
        store=postgres_url,
        secret_key=tmp_path / "secrets.key",
        deps={"api": service.api},
        accounts=[shop(service)],
    )
    async with other:
        await connect(crib, "ada", "ada@shop")
        sessions = [await one.open(f"s-{number}", owner="ada") for number, one in enumerate((crib, other))]
        assert all(result.ok for result in await asyncio.gather(*(one.call("whoami", {}) for one in sessions)))
        service.expire()
        results = await asyncio.gather(*(one.call("whoami", {}) for one in sessions for _ in range(4)))
        assert [result.failure for result in results if not result.ok] == []
        assert len(service.access) == 1
