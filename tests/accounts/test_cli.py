"""`toolcrib connect` and `toolcrib accounts`, in processes of their own."""

import asyncio
import json
import os
import re
from pathlib import Path

import httpx
import pytest

from tests import ready
from tests.accounts.place import KEY
from tests.accounts.service import Service
from tests.requirements import requirement

pytestmark = pytest.mark.process

TOOLS = '''
import httpx
from toolcrib import Context, tool

@tool(namespace="default", effect="read")
async def whoami(ctx: Context) -> str:
    """Who am I?"""
    headers = await ctx.authorization("shop", "{api}")
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        return (await http.get("{api}", headers=headers)).json()["login"]
'''
CRIB = """
sources: [tools.py]
store: sqlite:///crib.db
secret_key: file:secrets.key
accounts:
  shop: {{resource: "{api}"}}
  bank: {{grant: key}}
"""


@pytest.fixture
def folder(service: Service, tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS.format(api=service.api))
    (tmp_path / "crib.yaml").write_text(CRIB.format(api=service.api))
    (tmp_path / "secrets.key").write_text(KEY)
    return tmp_path


async def start(folder: Path, *words: str) -> asyncio.subprocess.Process:
    env = {**os.environ, "TOOLCRIB_TRUST": "1"}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *ready.command("-m", "toolcrib", *words), cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def run(folder: Path, *words: str, stdin: str = "") -> tuple[int | None, str, str]:
    process = await start(folder, *words)
    out, err = await process.communicate(stdin.encode())
    return process.returncode, out.decode(), err.decode()


async def address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        if found := re.search(rb"http://\S+authorize\S+", line):
            return found[0].decode()
    raise AssertionError("it told no address")


async def agree(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        leads = await browser.get(f"{url}&login=ada@shop")
        assert (await browser.get(leads.headers["location"])).status_code == 200


@requirement("accounts.cli.1")
async def test_an_account_is_connected_listed_used_and_removed(folder: Path, service: Service) -> None:
    process = await start(folder, "connect", "shop", "--owner", "ada")
    await agree(await address(process))
    assert await process.wait() == 0
    code, out, _ = await run(folder, "call", "whoami", "--owner", "ada", "--json")
    assert (code, "ada@shop" in out) == (0, True)
    code, out, _ = await run(folder, "accounts", "list", "--json")
    (listed,) = json.loads(out)
    assert (listed["account"], listed["owner"], "secret" in listed) == ("shop", "ada", False)
    assert not [secret for secret in service.secrets if secret in out]
    code, out, _ = await run(folder, "accounts", "remove", "shop", "--owner", "ada")
    assert (code, out.strip()) == (0, "Removed shop of ada.")
    code, _, err = await run(folder, "accounts", "remove", "shop", "--owner", "ada")
    assert (code, "has not connected" in err) == (1, True)


@requirement("accounts.cli.1")
async def test_a_key_is_read_from_standard_input_and_a_wrong_name_is_told(folder: Path) -> None:
    code, out, err = await run(folder, "connect", "bank", "--owner", "ada", stdin="sk-ada-1234\n")
    assert (code, out.strip()) == (0, "Connected bank for ada.")
    assert "sk-ada" not in out + err
    code, _, err = await run(folder, "connect", "shob")
    assert (code, "did you mean 'shop'" in err) == (1, True)
