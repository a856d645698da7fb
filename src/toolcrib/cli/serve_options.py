"""The options of `toolcrib serve`, which go before what the crib's file says about serving."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.root_permission import AllowRoot
from toolcrib.cli.terminal import CommandError

if TYPE_CHECKING:
    from toolcrib.cli.config.server import ServeConfig

Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace", "-n", help="Open only these to clients. Without it: default_namespaces of the crib, else all."
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format", metavar="text|json", help="How the log is written. Without it: serve.log_format, else text."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `toolcrib serve`."""

    mcp: Annotated[bool, typer.Option("--mcp", help="Only speak MCP, at /mcp.")] = False
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on. Without it: serve.host, else 127.0.0.1.")
    ] = None
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port; 0 takes any that is free. Without it: 8000."),
    ] = None
    auth: Annotated[
        str | None,
        typer.Option(
            "--auth", metavar="off|keys", help="keys: those of the store. Without it: keys, if there are any."
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", metavar="FILE", help="Let in who has a key of this file: lines of NAME KEY."),
    ] = None
    key_env: Annotated[
        str | None, typer.Option("--key-env", metavar="NAME", help="Let in who has the key in this variable.")
    ] = None
    allow_origin: Annotated[
        list[str] | None, typer.Option("--allow-origin", help="Pages of this origin may call too; again for more.")
    ] = None
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name that the server is reached by; again for more.")
    ] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to other machines without keys.")] = False
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Without keys: let in whoever reaches it, not only who has the token.")
    ] = False
    allow_root: AllowRoot = False
    namespace: Namespaces = None
    reload: Annotated[
        bool, typer.Option("--reload", help="Read crib.yaml and the code again when they change, to develop.")
    ] = False
    workers: Annotated[
        str | None,
        typer.Option(
            "--workers", metavar="N|auto", help="Server processes behind the port. Without it: serve.workers, else 1."
        ),
    ] = None
    log_format: LogFormat = None
    task_after: Annotated[
        float | None,
        typer.Option("--task-after", min=0.0, help="Seconds after which an MCP call becomes a task. Without it: 10."),
    ] = None

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            CommandError: they do.
        """
        if self.auth not in (None, "off", "keys"):
            raise CommandError(f"There is no --auth {self.auth}", "it is off or keys")
        if self.auth == "off" and (self.key_file or self.key_env):
            advice = "leave --key-file and --key-env out, or --auth"
            raise CommandError("With --auth off nobody is asked for a key", advice)

    def over(self, config: ServeConfig) -> ServeConfig:
        """Return what a file says, with these options before it."""
        return config._replace(
            host=self.host or config.host,
            port=config.port if self.port is None else self.port,
            hosts=(*config.hosts, *(self.allow_host or ())),
            origins=(*config.origins, *(self.allow_origin or ())),
            namespaces=tuple(self.namespace or config.namespaces),
            keys=self.key_file or config.keys,
            mcp=config.mcp if self.task_after is None else {**config.mcp, "task_after_s": self.task_after},
            log_format=self.log_format or config.log_format,
            workers=self.workers or config.workers,
        )
