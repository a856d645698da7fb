"""Secrets by reference: looked up when they are used, and never told when that fails."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib import Context, Crib, ToolFailure, tool
from toolcrib.secret_references import resolve_secret


@requirement("accounts.secret.2")
async def test_variables_and_files_are_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    for value in ("first-secret", "second-secret"):
        monkeypatch.setenv("SHOP_KEY", value)
        file.write_text(f"{value}\n")
        assert await resolve_secret("env:SHOP_KEY") == value
        assert await resolve_secret(f"file:{file}") == value
    assert await resolve_secret("plain") == "plain"


@pytest.mark.process
@requirement("accounts.secret.2")
async def test_one_password_is_asked_by_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "op"
    program.write_text('#!/bin/sh\n[ "$3" = op://team/shop/key ] && printf "from $1 $3" || exit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await resolve_secret("op://team/shop/key") == "from read op://team/shop/key"
    with pytest.raises(ToolFailure, match="ended with 3"):
        await resolve_secret("op://team/shop/none")


@requirement("accounts.secret.2")
async def test_a_vault_is_asked_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"data":{"data":{"key":"from-the-vault"}}}'
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("VAULT_ADDR", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("VAULT_TOKEN", "vault-token-1")
        assert await resolve_secret("vault://secret/data/shop#key") == "from-the-vault"
        with pytest.raises(ToolFailure, match="no such field"):
            await resolve_secret("vault://secret/data/shop#other")
    assert asked[0].startswith(b"GET /v1/secret/data/shop ")
    assert b"vault-token-1" in asked[0]


@requirement("accounts.secret.2")
async def test_the_keychain_is_asked_by_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keyring.py").write_text("def get_password(*names): return names == ('shop', 'ada') and 'k1' or None\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    assert await resolve_secret("keyring:shop/ada") == "k1"
    with pytest.raises(ToolFailure, match="no such entry"):
        await resolve_secret("keyring:shop/bob")
    monkeypatch.delitem(sys.modules, "keyring")


@pytest.mark.process
@requirement("accounts.secret.2")
@pytest.mark.parametrize("reference", ["env:NOT_SET", "file:/nowhere/at/all", "vault://a#b", "op://a/b/c"])
async def test_what_cannot_be_read_is_told_by_its_reference(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAULT_ADDR", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolFailure) as raised:
        await resolve_secret(reference)
    assert raised.value.code == "unavailable"
    assert reference in raised.value.message


@requirement("accounts.secret.2")
async def test_what_credentials_return_may_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(namespace="default", name="pay")
    async def pay(ctx: Context) -> str:
        """Pay."""
        key = await ctx.credential("bank")
        return f"{len(key)} {key}"

    monkeypatch.setenv("BANK", "sk-bank-12345")
    async with Crib([pay], credentials=lambda owner, name: "env:BANK") as crib:
        assert (await (await crib.open("s", owner="ada")).call("pay", {})).data.startswith("13 ")
        assert "sk-bank" not in (await (await crib.open("s", owner="ada")).call("pay", {})).data
