"""Calls of operations: from arguments to a request, and from the answer to a result."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toolcrib.context import Context
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.http import Request, Response
from toolcrib.schema import output_check
from toolcrib.sources.openapi import request_bodies, styles, swagger
from toolcrib.sources.openapi.auth import RequestAuth, RequestCredentials, Wanted
from toolcrib.sources.openapi.connections import Connections
from toolcrib.sources.openapi.document import DocumentNode, OpenApiDocument
from toolcrib.sources.openapi.lazy_tool import ToolSchemas
from toolcrib.sources.openapi.operations import Operation
from toolcrib.sources.openapi.plan import RequestPlan, plan
from toolcrib.sources.openapi.responses import outcome
from toolcrib.sources.openapi.servers import ServerUrl
from toolcrib.tool import canonical
from toolcrib.types import Effect, Result

_PIECE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class DocumentContext:
    """What the calls of one document share."""

    document: OpenApiDocument
    guard: RequestAuth
    connections: Connections
    uploads: Path | None = None


class OperationRunner:
    """One operation at its server. What it takes is worked out when it is first asked for."""

    def __init__(self, context: DocumentContext, operation: Operation, server: ServerUrl, effect: Effect) -> None:
        self.context = context
        self.operation = operation
        self.server = server
        self.effect = effect

    @cached_property
    def plan(self) -> RequestPlan:
        """How it is called.

        Raises:
            BadDocument: the document does not hold there.
        """
        document, operation = self.context.document, self.operation
        with document.expecting(operation.node):
            made = plan(document, operation.node, operation.shared, self.context.uploads is not None)
        known = {one.wire for one in made.parameters if one.place == "path"}
        lacking = set(_PIECE.findall(operation.path)) - known
        if lacking:
            raise document.bad(operation.node, f"the path names {', '.join(sorted(lacking))}, which is no parameter")
        return made

    def shapes(self) -> ToolSchemas:
        """What it takes and gives."""
        return self.plan.shapes

    @cached_property
    def _check(self) -> Callable[[Any], str | None] | None:
        return None if self.plan.shapes.gives is None else output_check(self.plan.shapes.gives)

    @cached_property
    def wanted(self) -> list[Wanted]:
        """The ways to say who asks."""
        document = self.context.document
        with document.expecting(self.operation.node):
            return self._ways(document)

    def _ways(self, document: OpenApiDocument) -> list[Wanted]:
        security = self.operation.node.get("security") or document.root.get("security")
        return [self._way(way, document.schemes) for way in (() if security is None else security.items())]

    def _way(self, way: DocumentNode, schemes: DocumentNode | None) -> Wanted:
        wanted = {}
        for name in way.keys():  # noqa: SIM118 - a node is no mapping
            scheme = None if schemes is None else schemes.get(name)
            if scheme is None:
                raise self.context.document.bad(way, f"there is no security scheme {name!r}")
            definition = self.context.document.follow(scheme).value
            definition = swagger.security(definition) if self.context.document.version == "2.0" else definition
            wanted[name] = {**definition, "base": self.server.url}
        return wanted

    async def run(self, ctx: Context, values: Mapping[str, Any]) -> Result:
        """Makes the request and gives what was answered.

        Raises:
            ToolFailure: it could not be made, was not answered, or the answer says that it failed.
        """
        try:
            made, wanted, check = self.plan, self.wanted, self._check
        except BadTool as error:
            raise ToolFailure("unavailable", str(error), retryable=False) from None
        context = self.context
        content = None
        if made.body is not None:  # which may hold files
            content = await asyncio.to_thread(request_bodies.content, made.body, values, context.uploads)
        proof = await context.guard.proof(wanted, ctx.owner, context.connections)
        answer = await self._send(ctx, values, content, proof)
        if answer.status == 401 and context.guard.forget(proof):  # its token may have been withdrawn
            proof = await context.guard.proof(wanted, ctx.owner, context.connections)
            answer = await self._send(ctx, values, content, proof)
        if answer.status == 401 and proof.accounts:
            for name in proof.accounts:  # its owner is asked to connect it anew, where it cannot be renewed
                await ctx.credential(name, refused=await ctx.credential(name))
            answer = await self._send(ctx, values, content, proof)
        return outcome(answer, self.effect, proof.masks(), check, self.operation.method)

    async def _send(
        self, ctx: Context, values: Mapping[str, Any], content: request_bodies.Content | None, proof: RequestCredentials
    ) -> Response:
        made = self.plan
        query = [*self._query(values), *proof.query]
        headers = {"Accept": made.accept, **self._headers(values)}
        cookies = [styles.in_cookie(one, values[one.name]) for one in self._given("cookie", values)]
        if cookies or proof.cookies:
            headers["Cookie"] = "; ".join([*cookies, *proof.cookies])
        if made.key is not None:
            headers[made.key] = dedup_key(ctx, values)
        if content is not None:
            headers["Content-Type"] = content.media
        lower = {name.lower() for name in proof.headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in lower} | proof.headers
        address = f"{self.server.target.text}{self._path(values)}"
        for name in proof.accounts:
            headers |= await ctx.authorization(name, address, self.operation.method.upper())
        request = Request(
            f"{address}{'?' if query else ''}{'&'.join(query)}",
            self.server.target,
            self.operation.method.upper(),
            headers,
            None if content is None else content.data,
        )
        try:
            return await self.context.connections.send(request)
        except ToolFailure as error:
            if error.code == "too_large" and self.effect == "once":
                raise ToolFailure("too_large", f"{error.message}; the request has run", retryable=False) from None
            raise

    def _given(self, place: styles.Place, values: Mapping[str, Any]) -> list[styles.Parameter]:
        parameters = (one for one in self.plan.parameters if one.place == place)
        return [one for one in parameters if values.get(one.name) is not None]

    def _query(self, values: Mapping[str, Any]) -> list[str]:
        return [pair for one in self._given("query", values) for pair in styles.in_query(one, values[one.name])]

    def _headers(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {one.wire: styles.in_header(one, values[one.name]) for one in self._given("header", values)}

    def _path(self, values: Mapping[str, Any]) -> str:
        """The path; a value is a piece of one segment, and neither empty nor a way up."""
        known = {one.wire: one for one in self._given("path", values)}

        def piece(match: re.Match[str]) -> str:
            one = known.get(match[1])
            if one is None:
                raise ToolFailure("invalid_arguments", f"{match[1]}: is required, since it is part of the address")
            return styles.in_path(one, values[one.name])

        parts = _PIECE.split(self.operation.path)
        literal = [styles.encoded(part, "/:@!$&'()*+,;=~%") for part in parts[::2]]
        filled = [piece(placeholder) for placeholder in _PIECE.finditer(self.operation.path)]
        path = "".join(part for pair in zip(literal, [*filled, ""], strict=True) for part in pair)
        if any(one in (".", "..") for one in path.split("/")):
            raise ToolFailure("invalid_arguments", "'.' and '..' cannot be part of an address")
        return f"{self.server.path}{path}"


def dedup_key(ctx: Context, values: Mapping[str, Any]) -> str:
    """A key of this call and its arguments, the same however often it is sent."""
    return hashlib.sha256(canonical([ctx.session, ctx.id, dict(values)])).hexdigest()[:32]
