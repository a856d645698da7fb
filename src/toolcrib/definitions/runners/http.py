"""Commands of web services: one request for each call, to the host of the file and to no other.

The address that is checked is the address that is connected to, so that a name cannot lead elsewhere in between.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.context import Context
from toolcrib.definitions.definition import NOTHING, Command, ToolDefinition
from toolcrib.definitions.runners import environment, protocol, responses
from toolcrib.definitions.runners.processes import LARGEST
from toolcrib.definitions.runners.protocol import Runner, RunnerSettings
from toolcrib.definitions.runners.requests import Prepared, RequestTemplate
from toolcrib.definitions.runners.templates import BadTemplate
from toolcrib.errors import ToolFailure
from toolcrib.http import Client, Egress, Request, Unanswered
from toolcrib.policy import hosts, urls
from toolcrib.policy.errors import BadRule, UnfitArgument
from toolcrib.types import Effect, Result

EFFECTS: Mapping[str, Effect] = {"GET": "read", "HEAD": "read", "PUT": "idempotent", "DELETE": "idempotent"}
AUTHS = ("bearer", "basic", "header", "query")
SPARE_S = 1.0
"""The pipeline's own clock comes after the one here, which knows whether the request was sent."""


def runner(definition: ToolDefinition, command: Command, settings: RunnerSettings) -> Runner | None:
    """Return the runner of a command of a service; None where there is no address, or no request is described.

    Raises:
        BadTemplate: the address or a template does not hold.
    """
    base = definition.specific.get("base_url")
    if base is None or not any(key in command.fields for key in ("method", "path", "query", "body")):
        return None
    service = ServiceRunner(
        definition, command, settings, _target(base), RequestTemplate.read(base, definition, command), _auth(definition)
    )
    return Runner(
        service.run,
        protocol.schema(command, service.request.places, service.request.required),
        protocol.capabilities(definition, command, f"net:egress:{_resource(service.target)}"),
        service.effect,
        protocol.timeout_s(command, definition) + SPARE_S,
        render=service.request.fill,
    )


def _target(base: Any) -> urls.UrlTarget:
    try:
        target = urls.canonical(base if isinstance(base, str) else "")
    except UnfitArgument as problem:
        raise BadTemplate("base_url", str(problem)) from None
    if target.scheme not in ("http", "https"):
        raise BadTemplate("base_url", "its scheme is http or https")
    return target


def _resource(target: urls.UrlTarget) -> str:
    return target.host if (target.scheme, target.port) == ("https", 443) else target.text


def _auth(definition: ToolDefinition) -> Mapping[str, Any]:
    auth = definition.specific.get("auth") or NOTHING
    if not isinstance(auth, Mapping):
        raise BadTemplate("auth", "it is a mapping")
    if isinstance(auth.get("account"), str) and auth.get("type", "bearer") == "bearer" and "env" not in auth:
        return auth
    if auth and (auth.get("type") not in AUTHS or not isinstance(auth.get("env"), str)):
        expected = "its env the name of a variable; or its account the name of one that owners connect"
        raise BadTemplate("auth", f"its type is one of {', '.join(AUTHS)}, {expected}")
    return auth


@dataclass(frozen=True, slots=True)
class ServiceRunner(Egress):
    """A request that is made for every call."""

    definition: ToolDefinition
    command: Command
    settings: RunnerSettings
    target: urls.UrlTarget
    request: RequestTemplate
    auth: Mapping[str, Any]

    @property
    def effect(self) -> Effect:
        """What the file says, else what the method means."""
        return protocol.effect(self.definition, self.command, EFFECTS.get(self.request.method, "once"))

    async def run(self, ctx: Context, values: Mapping[str, Any]) -> Result:
        """Make the request and return what was answered.

        Raises:
            ToolFailure: it could not be made, was not answered, or the answer says that it failed.
        """
        secrets = environment.values(environment.declared(self.definition), self.settings.environ)
        prepared = self.request.fill(values)
        masks = self._authorise(prepared, secrets)
        limit = protocol.timeout_s(self.command, self.definition)
        url = f"{self.target.text}{prepared.path_and_query}"
        client, account = Client(resolve=self.settings.resolve, largest=LARGEST), self.auth.get("account")
        try:
            answer = await client.send(await self._request(ctx, url, prepared), self, total_s=limit)
            if answer.status == 401 and account is not None:
                await ctx.credential(account, refused=await ctx.credential(account))
                answer = await client.send(await self._request(ctx, url, prepared), self, total_s=limit)
            return responses.outcome(answer, masks)
        except Unanswered as error:
            raise self._failure(error) from None

    async def _request(self, ctx: Context, url: str, prepared: Prepared) -> Request:
        """The request of a call, with the token of its owner where the file names an account."""
        headers, account = prepared.headers, self.auth.get("account")
        if account is not None:
            headers = {**headers, **await ctx.authorization(account, url.partition("?")[0], prepared.method)}
        return Request(url, self.target, prepared.method, headers, prepared.content)

    def _failure(self, error: Unanswered) -> ToolFailure:
        """Return the failure of a request without a response: one that may happen once says that it may have run."""
        if not error.sent or self.effect != "once":
            return ToolFailure(error.code, error.message)
        code = "unknown" if error.code == "unavailable" else error.code
        hint = "Find out whether it happened before calling it again."
        text = f"{error.message}; the request was sent and may have run"
        return ToolFailure(code, text, hint=hint, retryable=False, metadata={"may_have_run": True})

    def _authorise(self, prepared: Prepared, secrets: Mapping[str, str]) -> tuple[str, ...]:
        """Adds what proves who asks; the texts that nobody may see."""
        if not self.auth or "account" in self.auth:
            return environment.masks(secrets)
        value, name = secrets[self.auth["env"]].strip(), self.auth.get("name")
        if not (value.isascii() and value.isprintable()):
            raise ToolFailure(
                "unavailable", f"{self.auth['env']} holds a character that cannot be sent", retryable=False
            )
        match self.auth["type"]:
            case "query":
                prepared.query.append((str(name or "api_key"), value))
            case "header":
                prepared.headers[str(name or "X-API-Key")] = value
            case "basic":
                value = base64.b64encode((f"{name}:{value}" if name else value).encode()).decode()
                prepared.headers["Authorization"] = f"Basic {value}"
            case _:
                prepared.headers["Authorization"] = f"Bearer {value}"
        return environment.masks(secrets, value)

    def check_addresses(self, target: urls.UrlTarget, inner: Sequence[str]) -> None:
        """Allow inner addresses where the file names an inner host, or requires them."""
        for address in inner:
            if not (target.private or self._may_reach(address)):
                raise ToolFailure(
                    "denied",
                    f"{target.host} leads to {address}, which lies inside",
                    hint=f"a file that may go there says so: requires net:egress:{address}",
                )

    def _may_reach(self, address: str) -> bool:
        """True if an address is public, or is one that the file requires, which the policy then has agreed to."""
        bare = address.partition("%")[0]
        host = hosts.canonical(f"[{bare}]" if ":" in bare else bare)
        reached = urls.UrlTarget(self.target.scheme, host, self.target.port, hosts.is_private(host))
        if not reached.private:
            return True
        required = protocol.capabilities(self.definition, self.command)
        return any(
            _names(one.removeprefix("net:egress:"), reached) for one in required if one.startswith("net:egress:")
        )


def _names(pattern: str, target: urls.UrlTarget) -> bool:
    try:
        return urls.grant(pattern)(target)
    except BadRule:
        return False
