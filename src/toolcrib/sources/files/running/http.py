"""Commands of web services: one request for each call, to the host of the file and to no other.

The address that is checked is the address that is connected to, so that a name can not lead elsewhere in between.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.policy import hosts, urls
from toolcrib.policy.problems import BadRule, Unfit
from toolcrib.sources.files.definition import NOTHING, Command, Definition
from toolcrib.sources.files.running import answers, environment, runners
from toolcrib.sources.files.running.requests import Prepared, Request
from toolcrib.sources.files.running.runners import Runner, Settings
from toolcrib.sources.files.running.templates import BadTemplate
from toolcrib.types import Effect, Result

if TYPE_CHECKING:
    import ssl

    import httpx

EFFECTS: Mapping[str, Effect] = {"GET": "read", "HEAD": "read", "PUT": "idempotent", "DELETE": "idempotent"}
AUTHS = ("bearer", "basic", "header", "query")
REDIRECTS = 5
SPARE_S = 1.0
"""The pipeline's own clock comes after the one here, which knows whether the request was sent."""


def runner(definition: Definition, command: Command, settings: Settings) -> Runner | None:
    """How a command of a service runs; None where there is no address, or nothing is said of a request.

    Raises:
        BadTemplate: the address or a template does not hold.
    """
    base = definition.specific.get("base_url")
    if base is None or not any(key in command.said for key in ("method", "path", "query", "body")):
        return None
    service = Service(
        definition, command, settings, _target(base), Request.read(base, definition, command), _auth(definition)
    )
    return Runner(
        service.run,
        runners.schema(command, service.request.places, service.request.required),
        runners.capabilities(definition, command, f"net:egress:{_resource(service.target)}"),
        service.effect,
        runners.timeout_s(command, definition) + SPARE_S,
    )


def _target(base: Any) -> urls.Target:
    try:
        target = urls.canonical(base if isinstance(base, str) else "")
    except Unfit as problem:
        raise BadTemplate("base_url", str(problem)) from None
    if target.scheme not in ("http", "https"):
        raise BadTemplate("base_url", "its scheme is http or https")
    return target


def _resource(target: urls.Target) -> str:
    return target.host if (target.scheme, target.port) == ("https", 443) else target.text


def _auth(definition: Definition) -> Mapping[str, Any]:
    auth = definition.specific.get("auth") or NOTHING
    if not isinstance(auth, Mapping):
        raise BadTemplate("auth", "it is a mapping")
    if auth and (auth.get("type") not in AUTHS or not isinstance(auth.get("env"), str)):
        raise BadTemplate("auth", f"its type is one of {', '.join(AUTHS)}, its env the name of a variable")
    return auth


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    """Reading all certificates takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class Service:
    """A request that is made for every call."""

    definition: Definition
    command: Command
    settings: Settings
    target: urls.Target
    request: Request
    auth: Mapping[str, Any]

    @property
    def effect(self) -> Effect:
        """What the file says, else what the method means."""
        return runners.effect(self.definition, self.command, EFFECTS.get(self.request.method, "once"))

    async def run(self, ctx: Context, values: Mapping[str, Any]) -> Result:
        """Makes the request and gives what was answered.

        Raises:
            ToolFailure: it could not be made, was not answered, or the answer says that it failed.
        """
        secrets = environment.values(environment.declared(self.definition), self.settings.environ)
        prepared = self.request.fill(values)
        masks = self._authorise(prepared, secrets)
        limit, sent = runners.timeout_s(self.command, self.definition), _Sent(self.effect == "once")
        try:
            async with asyncio.timeout(limit):
                return answers.outcome(await self._follow(prepared, sent), masks)
        except TimeoutError:
            raise sent.failure("timeout", f"{self.target.host} did not answer within {limit:g} s") from None

    def _authorise(self, prepared: Prepared, secrets: Mapping[str, str]) -> tuple[str, ...]:
        """Adds what proves who asks; the texts that nobody may see."""
        if not self.auth:
            return environment.masks(secrets)
        value, name = secrets[self.auth["env"]].strip(), self.auth.get("name")
        if not (value.isascii() and value.isprintable()):
            raise ToolFailure(
                "unavailable", f"{self.auth['env']} holds a character that can not be sent", retryable=False
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

    async def _follow(self, prepared: Prepared, sent: _Sent) -> answers.Answer:
        """The answer, after redirects on the same host."""
        for _ in range(REDIRECTS):
            answer = await self._answer(prepared, sent)
            if answer.location is None:
                return answer
            sent.yet = False
            where = urljoin(f"{self.target.text}{prepared.path}", answer.location)
            if self._elsewhere(where):
                message = f"{self.target.host} redirects to another place, which is refused"
                raise ToolFailure("denied", message, metadata={"http_status": answer.status})
            prepared = prepared.redirected(answer.status, where)
        raise ToolFailure("failed", f"{self.target.host} redirects more than {REDIRECTS} times")

    def _elsewhere(self, where: str) -> bool:
        try:
            return urls.canonical(where) != self.target
        except Unfit:
            return True

    async def _answer(self, prepared: Prepared, sent: _Sent) -> answers.Answer:
        """Asks the first address that can be reached. Nothing is tried again once a request may have been sent."""
        try:
            import httpx
        except ImportError:
            raise ToolFailure("unavailable", "Requests need httpx: pip install 'toolcrib[files]'") from None
        problem = "has no address"
        for address in await self._addresses():
            try:
                async with httpx.AsyncHTTPTransport(verify=_tls(), retries=0) as transport:
                    return await answers.read(
                        await transport.handle_async_request(self._request(prepared, address, sent))
                    )
            except httpx.ConnectError as error:
                forged = "CERTIFICATE_VERIFY_FAILED" in str(error)
                problem = "shows no certificate that can be trusted" if forged else "can not be reached"
            except httpx.TransportError as error:
                problem = f"ended the connection ({type(error).__name__})"
                raise sent.failure("unavailable", f"{self.target.host} {problem}") from None
        raise ToolFailure("unavailable", f"{self.target.host} {problem}")

    def _request(self, prepared: Prepared, address: str, sent: _Sent) -> httpx.Request:
        import httpx

        target = self.target
        place = f"[{address}]" if ":" in address else address
        headers = httpx.Headers({"User-Agent": "toolcrib", "Accept": "*/*"})
        for name, value in prepared.headers.items():
            headers[name] = value
        headers["Host"] = target.host if target.port == urls.PORTS[target.scheme] else f"{target.host}:{target.port}"
        return httpx.Request(
            prepared.method,
            httpx.URL(f"{target.scheme}://{place}:{target.port}").copy_with(raw_path=prepared.raw_path),
            headers=headers,
            content=prepared.content,
            extensions={"sni_hostname": target.host.strip("[]"), "trace": sent.trace},
        )

    async def _addresses(self) -> list[str]:
        """The addresses of the host, all of which may be connected to.

        Raises:
            ToolFailure: `denied`, one of them lies inside and is not named; `unavailable`, there are none.
        """
        target = self.target
        try:
            found = await self.settings.resolve(target.host.strip("[]"), target.port)
        except OSError:
            raise ToolFailure("unavailable", f"{target.host} is not known") from None
        for address in found:
            if not (target.private or self._may_reach(address)):
                raise ToolFailure(
                    "denied",
                    f"{target.host} leads to {address}, which lies inside",
                    hint=f"a file that may go there says so: requires net:egress:{address}",
                )
        return found

    def _may_reach(self, address: str) -> bool:
        """Whether an address is public, or is one that the file requires, which the policy then has agreed to."""
        bare = address.partition("%")[0]
        host = hosts.canonical(f"[{bare}]" if ":" in bare else bare)
        reached = urls.Target(self.target.scheme, host, self.target.port, hosts.is_private(host))
        if not reached.private:
            return True
        required = runners.capabilities(self.definition, self.command)
        return any(
            _names(one.removeprefix("net:egress:"), reached) for one in required if one.startswith("net:egress:")
        )


def _names(pattern: str, target: urls.Target) -> bool:
    try:
        return urls.grant(pattern)(target)
    except BadRule:
        return False


class _Sent:
    """Whether a request may have reached the other side."""

    def __init__(self, once: bool) -> None:
        self.once = once
        self.yet = False

    async def trace(self, event: str, info: Any) -> None:
        """Hears what becomes of a request."""
        if event.endswith("send_request_headers.started"):
            self.yet = True

    def failure(self, code: str, message: str) -> ToolFailure:
        """A failure without an answer: one that may happen once says that it may have run."""
        if not (self.yet and self.once):
            return ToolFailure(code, message)
        code = "unknown" if code == "unavailable" else code
        hint = "Find out whether it happened before calling it again."
        text = f"{message}; the request was sent and may have run"
        return ToolFailure(code, text, hint=hint, retryable=False, metadata={"may_have_run": True})
