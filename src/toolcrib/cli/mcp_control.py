"""`toolcrib mcp refresh`, `restart` and `logs`: the MCP servers of a `toolcrib serve` that runs."""

from __future__ import annotations

import os
from typing import Annotated, Any
from urllib.parse import quote

import typer

from toolcrib.cli.serve import TOKEN, configured
from toolcrib.cli.terminal import CommandError, Terminal

PATIENCE_S = 5.0
READ_S = 90.0
"""How long a server may take: it may have to start a program first."""

Name = Annotated[str, typer.Argument(help="What it is called in the crib.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="Where the server runs. Without it: serve of crib.yaml, else this machine.")
]
KeyOption = Annotated[
    str, typer.Option("--key-env", metavar="NAME", help="The variable with a key or the start token.")
]


async def refresh(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Have a running server list the tools of an MCP server anew."""
    _tell(terminal, await ask_server(terminal, "POST", f"/mcp/{quote(name)}/refresh", url, key_env))


async def restart(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Have a running server start an MCP server again. Calls that it works on end as if it had died."""
    _tell(terminal, await ask_server(terminal, "POST", f"/mcp/{quote(name)}/restart", url, key_env))


async def logs(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Print what the processes of an MCP server wrote.

    That is the end of their standard error.
    """
    answer = await ask_server(terminal, "GET", f"/mcp/{quote(name)}/log", url, key_env)
    if terminal.json:
        terminal.data(answer)
    elif answer["lines"]:
        for text in answer["lines"]:
            terminal.text(text)
    else:
        terminal.say(f"{name} wrote nothing.")


def _tell(terminal: Terminal, status: dict[str, Any]) -> None:
    if terminal.json:
        terminal.data(status)
    else:
        reason = f" ({status['reason']})" if status["reason"] else ""
        terminal.text(f"{status['name']}: {status['status']}{reason}, {status['tools']} tools", "green")


async def ask_server(
    terminal: Terminal, method: str, path: str, url: str | None, key_env: str, body: Any = None
) -> dict[str, Any]:
    """Ask a `toolcrib serve` that runs, as one of its administrators.

    Raises:
        CommandError: it is not there, or refused.
    """
    from toolcrib.client import RemoteCrib
    from toolcrib.errors import Refused

    config = configured(terminal)
    at = url or f"http://{config.host}:{config.port}"
    try:
        async with RemoteCrib(at, key=os.environ.get(key_env), patience=PATIENCE_S) as crib:
            answer: dict[str, Any] = (await crib.link.ask(method, path, body, read_s=READ_S)).json()
            return answer
    except Refused as error:
        advice = (
            f"is `toolcrib serve` running at {at}? --url names another place; {key_env} holds its key or start token"
        )
        raise CommandError(error.message, error.hint or advice, exit_code=1, code=error.code) from None
