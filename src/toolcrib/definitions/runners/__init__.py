"""How commands of definition files run: programs, scripts, services and workflows of other tools."""

from __future__ import annotations

from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.runners.protocol import Runner, RunnerSettings
from toolcrib.definitions.runners.templates import BadTemplate

__all__ = ["BadTemplate", "Runner", "RunnerSettings", "runner"]


def runner(definition: ToolDefinition, command: Command, settings: RunnerSettings) -> Runner | None:
    """How a command runs; None where there is nothing to run, and for a tool of a server.

    Raises:
        BadTemplate: what it would run does not hold.
    """
    if definition.type == "cli":
        from toolcrib.definitions.runners import cli

        return cli.runner(definition, command, settings)
    if definition.type == "local":
        from toolcrib.definitions.runners import local

        return local.runner(definition, command, settings)
    if definition.type == "http":
        from toolcrib.definitions.runners import http

        return http.runner(definition, command, settings)
    if definition.type == "meta":
        from toolcrib.definitions.runners import meta

        return meta.runner(definition, command, settings)
    return None
