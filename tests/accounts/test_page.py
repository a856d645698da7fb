"""The page about accounts, followed to the letter in a new folder, with a service of this machine for its example."""

import re
from pathlib import Path

import pytest

from tests.accounts.service import Service
from tests.accounts.test_cli import address, agree, run, start
from tests.requirements import requirement
from tests.shared import ROOT

pytestmark = pytest.mark.process

PAGE = (ROOT / "docs/howto/connect-accounts.md").read_text().partition("## Connect one")[2].partition("\n## ")[0]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> list[list[str]]:
    """The words of each line after `toolcrib`; the service has a tool of another name."""
    lines = [
        line.partition("#")[0].replace("orders", "whoami") for block in blocks("sh") for line in block.splitlines()
    ]
    return [line.split()[1:] for line in lines]


@requirement("accounts.cli.1")
async def test_a_newcomer_connects_an_account_from_the_page_alone(service: Service, tmp_path: Path) -> None:
    server = f"{service.api}/mcp"
    (tmp_path / "crib.yaml").write_text(blocks("yaml")[0].replace("https://mcp.shop.example/mcp", server))
    connect, list_accounts, list_tools, call = commands()
    code, out, err = await run(tmp_path, *list_tools)
    assert (code, "shop.connect" in out) == (0, True)
    assert "shop shows its tools to whoever has connected an account: `toolcrib connect shop`" in err
    _, out, _ = await run(tmp_path, "mcp", "list")
    assert "nobody has connected the account shop" in out
    process = await start(tmp_path, *connect)
    await agree(await address(process))
    told, _ = await process.communicate()
    assert (process.returncode, told.decode().startswith("Connected shop for ")) == (0, True)
    code, out, _ = await run(tmp_path, *list_accounts)
    assert (code, "shop" in out, "read write" in out) == (0, True, True)
    code, out, err = await run(tmp_path, *list_tools)
    assert (code, "shop.whoami" in out, "shop.connect" in out, "401" in err) == (0, True, False, False)
    code, out, _ = await run(tmp_path, "mcp", "inspect", "shop")
    assert (code, "whoami" in out) == (0, True)
    code, out, _ = await run(tmp_path, *call, "--yes")
    assert (code, out.strip()) == (0, "ada@shop")
    code, out, _ = await run(tmp_path, "accounts", "remove", "shop")
    assert (code, out.startswith("Removed shop of ")) == (0, True)
    assert "`toolcrib accounts remove shop`" in PAGE
    code, out, _ = await run(tmp_path, *list_tools)
    assert (code, "shop.connect" in out) == (0, True)
    assert service.revoked
