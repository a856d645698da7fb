"""How commands of definition files run: programs, scripts, services and workflows of other tools."""

from __future__ import annotations

from toolcrib.sources.files.definition import Command, Definition
from toolcrib.sources.files.running.runners import Runner, Settings
from toolcrib.sources.files.running.templates import BadTemplate

__all__ = ["BadTemplate", "Runner", "Settings", "runner"]


def runner(definition: Definition, command: Command, settings: Settings) -> Runner | None:
    """How a command runs; None where there is nothing to run, and for a tool of a server.

    Raises:
        BadTemplate: what it would run does not hold.
    """
    if definition.type == "cli":
        from toolcrib.sources.files.running import cli

        return cli.runner(definition, command, settings)
    if definition.type == "local":
        from toolcrib.sources.files.running import local

        return local.runner(definition, command, settings)
    if definition.type == "http":
        from toolcrib.sources.files.running import http

        return http.runner(definition, command, settings)
    if definition.type == "meta":
        from toolcrib.sources.files.running import meta

        return meta.runner(definition, command, settings)
    return None
