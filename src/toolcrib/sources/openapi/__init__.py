"""Operations of OpenAPI documents as tools: `OpenApi` is the source of them.

What a document says is a stranger's word unless the configuration trusts it. Requests go to the host that document or
configuration name, with credentials that nobody sees. The HTTP library is imported when it is first needed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from toolcrib.errors import BadTool, ToolcribError
from toolcrib.findings import Finding
from toolcrib.http.message import HEADER_NAME
from toolcrib.schema import SchemaError, nearest
from toolcrib.schema.limits import HEAVIEST_PATTERNS, SchemaBudget, SchemaSize
from toolcrib.sources import OK, Health, Source, left_out
from toolcrib.sources.openapi.auth import Credential, Credentials, RequestAuth
from toolcrib.sources.openapi.connections import Connections
from toolcrib.sources.openapi.document import OpenApiDocument
from toolcrib.sources.openapi.lazy_tool import LazyTool, ToolSchemas
from toolcrib.sources.openapi.loader import DocumentLoader, DocumentUnavailable, is_address
from toolcrib.sources.openapi.operation_runner import DocumentContext, OperationRunner
from toolcrib.sources.openapi.operations import Operation, operations, selection
from toolcrib.sources.openapi.parser import BadDocument
from toolcrib.sources.openapi.schemas import without_patterns
from toolcrib.sources.openapi.servers import configured, server
from toolcrib.tool import Tool
from toolcrib.types import Limits

__all__ = ["BadDocument", "OpenApi"]

LIMIT = 300
"""With more operations than that, a document is to be chosen from."""

EAGER = 100
"""Up to so many operations are checked at the start; of more, each is when it is first looked at."""

MOST_SCHEMAS = SchemaSize(64 * 1024 * 1024, 2_000_000, 10 * HEAVIEST_PATTERNS)
"""What all schemas of one document may come to together."""

RETRY_S = 5.0
_RESERVED = ("builtin", "client", "default", "prompts", "resources", "shell", "files", "http", "sql")

log = logging.getLogger("toolcrib.openapi")


class OpenApi(Source):
    """The operations of one document: `OpenApi("petstore.yaml")`, `OpenApi("https://host/openapi.json")`, or its data.

    `namespace` is where its tools stand; without one it is made of the document's title. `trusted` says that what it
    tells of its operations is true. `include` and `exclude` choose among them: `tag:pets`, `GET`, `/pets/**`,
    `GET /pets/*`, or a glob of operation ids; `limit` is how many there may be. `base_url` is where the service is,
    `variables` are those of the document's server. `auth` has credentials by the name of a security scheme,
    `credentials` gives those of an owner; `headers` go with every request. Files of `uploads` may be sent. `refs` are
    origins of other documents that it may refer to. `timeout` bounds each call; every `refresh_s` it is looked whether
    the document changed.

    Raises:
        BadDocument: the base_url is none, or a header has no name that can be sent.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        document: str | PathLike[str] | Mapping[str, Any],
        *,
        namespace: str | None = None,
        trusted: bool = False,
        include: Iterable[str] | str = (),
        exclude: Iterable[str] | str = (),
        limit: int | None = None,
        base_url: str | None = None,
        variables: Mapping[str, str] | None = None,
        auth: Mapping[str, Credential] | None = None,
        credentials: Credentials | None = None,
        headers: Mapping[str, str] | None = None,
        uploads: str | PathLike[str] | None = None,
        refs: Sequence[str] = (),
        timeout: float | None = None,
        refresh_s: float | None = 60.0,
    ) -> None:
        self._connections = Connections()
        place = document if isinstance(document, Mapping | str) else Path(document)
        self._loading = DocumentLoader(place, self._connections, refs)
        self.name = _legal(namespace or _name(place))
        self.namespaces = (self.name,) if namespace else ()
        self.trusted = trusted
        self._given = namespace is not None
        self._patterns = _texts(include), _texts(exclude)
        self._limit = limit
        self._server = None if base_url is None else configured(base_url, self._loading.name)
        self._variables = dict(variables or {})
        self._idle: tuple[tuple[tuple[str | int, ...], str], ...] = ()
        self._auth, self._credentials, self._headers = dict(auth or {}), credentials, dict(headers or {})
        if bad := [name for name in self._headers if not HEADER_NAME.fullmatch(name)]:
            raise BadDocument(self._loading.name, "headers", f"{bad[0]!r} is no name of a header")
        self._uploads = None if uploads is None else Path(uploads)
        self._timeout = timeout
        self._refresh_s = refresh_s
        self._beside: asyncio.Task[None] | None = None
        self._health = OK
        self._left_out: tuple[str, ...] = ()

    # As a source

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tools now. Where a server that has the document is away, it is tried again, and the crib starts without.

        Raises:
            BadDocument: it does not hold, or has too many operations.
        """
        try:
            tools = await self._load()
        except DocumentUnavailable as error:
            log.warning("%s", error)
            self._health = Health("unavailable", str(error))
            self._beside = asyncio.create_task(self._look(changed, there=False))
            return []
        except BaseException:
            await self._connections.close()
            raise
        if self._refresh_s is not None and not isinstance(self._loading.place, Mapping):
            self._beside = asyncio.create_task(self._look(changed, there=True))
        return tools

    def health_of(self, tool: Tool | None) -> Health:
        """Whether the document could be had when it was last looked for; without a tool also what of it is left out."""
        if tool is None and self._left_out and self._health.status == "ok":
            more = f", and {len(self._left_out) - 1} more" if len(self._left_out) > 1 else ""
            return Health("degraded", f"an operation is left out: {self._left_out[0]}{more}")
        return self._health

    async def stop(self) -> None:
        """Closes its connections."""
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.wait({self._beside})
            self._beside = None
        await self._connections.close()

    async def _look(self, changed: Callable[[Iterable[Tool]], None], *, there: bool) -> None:
        """Looks from time to time whether the document changed; one that no longer holds changes nothing."""
        read = OK  # how the document was when it was last read
        while not there or self._refresh_s is not None:
            await asyncio.sleep(RETRY_S if not there or self._refresh_s is None else self._refresh_s)
            try:
                if not there or await self._loading.changed():
                    changed(await self._load())
                    there, read = True, OK
                self._health = read
            except (DocumentUnavailable, ToolcribError) as error:
                log.warning("the document is left as it was: %s", error)
                self._health = Health("degraded" if there else "unavailable", str(error))
                read = read if isinstance(error, DocumentUnavailable) else self._health
            except Exception:  # whatever stands in it, the next look may find it better
                log.exception("the document %s could not be looked at", self._loading.name)

    async def _load(self) -> list[Tool]:
        document = await self._loading.load()
        return await asyncio.to_thread(self._tools, document)

    # From a document to tools

    def _tools(self, document: OpenApiDocument) -> list[Tool]:
        """All that are wanted; one that does not hold is left out, and the others stay.

        Raises:
            BadTool: there are none, too many, or not one that holds.
        """
        include, exclude = self._patterns
        with document.expecting(document.root):
            every = operations(document)
            selected = list(filter(selection(include, exclude), every))
        self._idle = tuple(self._unused(document, every))
        self._check_number(document, len(selected), len(every))
        self._check_auth(document)
        if not self._given:
            info = document.root.get("info")
            self.name = _of_title("" if info is None else info.text("title")) or self.name
            self.namespaces = (self.name,)
            self._given = True  # one that changes its title later does not move to where others are
        guard = RequestAuth(self.name, self._auth, self._credentials, self._headers)
        context = DocumentContext(document, guard, self._connections, self._uploads)
        made: list[LazyTool] = []
        problems: list[BadTool] = []
        budget = SchemaBudget(MOST_SCHEMAS)
        for one in selected:
            try:
                made.append(self._checked(context, one, budget, len(selected) <= EAGER))
            except BadTool as error:
                problems.append(error)
        if not made:
            raise problems[0]
        for problem in problems:
            log.warning("an operation is left out: %s", problem)
        self._left_out = tuple(map(str, problems))
        if not self.trusted:
            for tool in made:
                _ = tool.whole  # here, in a thread: whoever looks at a stranger's tool first does so on the event loop
        return list(made)

    def _unused(self, document: OpenApiDocument, every: list[Operation]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What of the settings does nothing with this document, each with its place."""
        for key, patterns in zip(("include", "exclude"), self._patterns, strict=True):
            for number, pattern in enumerate(patterns):
                if not any(map(selection((pattern,), ()), every)):
                    yield (key, number), f"{key}: '{pattern}' fits no operation"
        for number, ref in enumerate(self._loading.refs):
            if self._loading.is_idle(ref):
                yield ("refs", number), f"refs: the document refers to nothing at '{ref}'"
        servers = document.root.get("servers")
        known = {
            name
            for one in (servers.items() if servers is not None else ())
            if isinstance(one.value, Mapping) and isinstance(one.value.get("variables"), Mapping)
            for name in one.value["variables"]
        }
        for name in self._variables:
            if name not in known:
                yield ("variables", name), f"variables: no server has the variable '{name}'"

    async def findings(self) -> Sequence[Finding]:
        """Return the settings that do nothing with the document as it is, and the operations that are left out."""
        return left_out(self, self._left_out) + [
            Finding(
                "NO_REFERENCE" if setting[0] == "refs" else "NO_OPERATION",
                "warning",
                f"{self.name}: {problem}",
                "config",
                setting=setting,
            )
            for setting, problem in self._idle
        ]

    def _check_number(self, document: OpenApiDocument, chosen: int, there: int) -> None:
        if not there:
            raise BadDocument(document.name, "#/paths", "it has no operations")
        if not chosen:
            patterns = ", ".join([*self._patterns[0], *(f"not {one}" for one in self._patterns[1])])
            raise BadDocument(document.name, "", f"none of its {there} operations fits {patterns}")
        limit = LIMIT if self._limit is None and not any(self._patterns) else self._limit
        if limit is not None and chosen > limit:
            raise BadDocument(
                document.name,
                "",
                f"it has {chosen} operations, more than {limit}: choose with include and exclude "
                f"(tag:<tag>, GET, /path/**, an operation id), or set limit to {chosen}",
            )

    def _check_auth(self, document: OpenApiDocument) -> None:
        declared = [] if document.schemes is None else document.schemes.keys()
        for name in self._auth:
            if name not in declared:
                close = nearest(name, declared, 1)
                known = f"it declares {', '.join(declared)}" if declared else "it declares none; headers go without one"
                problem = f"auth names the security scheme {name!r}, which the document does not have: {known}"
                raise BadDocument(document.name, "", problem + (f" (did you mean {close[0]!r}?)" if close else ""))

    def _checked(self, context: DocumentContext, operation: Operation, budget: SchemaBudget, eager: bool) -> LazyTool:
        with context.document.expecting(operation.node):
            service = self._service(context, operation)
        tool = self._tool(service, budget)
        if eager:
            vars(tool)["whole"], _ = tool.made(), service.wanted
        return tool

    def _service(self, context: DocumentContext, operation: Operation) -> OperationRunner:
        document = context.document
        address = self._server or server(document, (operation.node, operation.shared, document.root), self._variables)
        # What the configuration names may lie inside, and a document that lies here may name what lies here.
        if self._server is not None or (address.target.private and not is_address(document.address)):
            self._connections.inner_hosts.add(address.target.host)
        return OperationRunner(context, operation, address, operation.effect(self.trusted))

    def _tool(self, service: OperationRunner, budget: SchemaBudget) -> LazyTool:
        operation, extra = service.operation, service.operation.extra

        def shapes() -> ToolSchemas:
            made = service.shapes()
            try:
                for schema in (made.takes, made.gives):
                    if schema is not None:
                        budget.spend(without_patterns(schema))  # patterns that are too large are left out
            except SchemaError as error:
                raise BadTool(operation.name, "schema", str(error), self.name) from None
            return made

        async def reconcile(ctx: Any, **values: Any) -> Any:
            """The service knows by its key whether it did it; asked again, it tells."""
            return await service.run(ctx, values) if self.trusted and service.plan.key is not None else None

        tool: LazyTool = LazyTool(
            name=operation.name,
            namespace=self.name,
            title=extra.get("title"),
            description=operation.description,
            tags=operation.tags,
            annotations=operation.annotations(service.effect),
            capabilities=(f"net:egress:{service.server.resource}",),
            effect=service.effect,
            limits=_limits(extra, self._timeout),
            metadata={"openapi": {"method": operation.method.upper(), "path": operation.path, "id": operation.id}},
            run=service.run,
            reconcile=reconcile,
            upstream=self.name,
            source=self.name,
            trusted=self.trusted,
            shapes=shapes,
        )
        return tool


def _limits(extra: Mapping[str, Any], timeout: float | None) -> Limits:
    try:
        return Limits(
            timeout_s=extra.get("timeout", timeout), concurrency=extra.get("concurrency"), rate=extra.get("rate")
        )
    except ValueError as error:
        raise BadTool(str(extra.get("name", "?")), "x-toolcrib", str(error)) from None


def _texts(texts: Iterable[str] | str) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _name(place: str | Path | Mapping[str, Any]) -> str:
    """What a document is called until its title is known."""
    if isinstance(place, Mapping):
        return "openapi"
    if isinstance(place, str) and is_address(place):
        return re.split(r"[:/?#]", place.partition("://")[2])[0]
    return Path(place).stem


def _legal(name: str) -> str:
    """The nearest thing that may be a namespace."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:32] or "openapi"


def _of_title(title: str) -> str:
    """A namespace of a title, which is a stranger's word: it does not get what the rules give to another's tools."""
    made = _legal(title) if title.strip() else ""
    return f"{made[:28]}-api" if made in _RESERVED else made
