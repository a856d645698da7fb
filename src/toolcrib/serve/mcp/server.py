"""The server without its transports: what each method does, for every revision alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import UNSET, Raw

from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallRequest
from toolcrib._call.scheduler import Starter
from toolcrib.crib import Crib
from toolcrib.serve.mcp.content import told_by_server, tool_result
from toolcrib.serve.mcp.library import McpLibrary, completed
from toolcrib.serve.mcp.lists import McpLists
from toolcrib.serve.mcp.request import Later, McpReply, McpRequest
from toolcrib.serve.mcp.sessions import McpSession, McpSessions
from toolcrib.serve.mcp.settings import McpServerSettings
from toolcrib.serve.mcp.signed_state import Signer, kept_secret
from toolcrib.serve.mcp.skills import SKILLS, SkillShelf, contents
from toolcrib.serve.mcp.spans import traced
from toolcrib.serve.mcp.subscriptions import Hub
from toolcrib.serve.mcp.tasks import Tasks
from toolcrib.serve.mcp.tool_calls import CallRunner, Shape
from toolcrib.serve.mcp.upstreams import Upstreams
from toolcrib.serve.mcp.whole_results import is_partial
from toolcrib.serve.mcp.wire import INTERNAL, INVALID_PARAMS, LEGACY, NOT_FOUND, SUPPORTED, TASKS, ProtocolError, encode
from toolcrib.session import Session
from toolcrib.sources.mcp.request_tools import method_of
from toolcrib.tool import Tool, canonical
from toolcrib.types import Result

Method = Callable[[McpRequest], Awaitable["McpReply | Later"]]
MOST_COMPLETIONS = 100
_META = b'{"_meta":{'


class McpServer:
    """A crib, and optionally a library, as methods of the protocol."""

    def __init__(self, crib: Crib, library: McpLibrary | None, settings: McpServerSettings, secret: bytes) -> None:
        self.crib = crib
        self.library = library
        self.settings = settings
        seal = Signer(secret)
        self.sessions = McpSessions(crib, seal, library, settings.namespaces)
        self.upstreams = Upstreams(crib)
        self.skills = SkillShelf(crib, self.upstreams)
        self.lists = McpLists(settings, library, self.upstreams)
        self.tasks = Tasks(self.sessions, seal, settings)
        self.running = CallRunner(seal, settings, self.tasks)
        self.hub = Hub(library, self.upstreams)
        crib.catalog.listen(self.hub.changed)
        self.info = {"name": settings.name, "version": settings.version}
        if settings.title:
            self.info["title"] = settings.title
        meta = encode({"io.modelcontextprotocol/serverInfo": self.info})
        self._heads = {
            kind: b'{"resultType":"%b","_meta":%b' % (kind, meta) for kind in (b"complete", b"input_required", b"task")
        }
        self.methods: dict[str, Method] = {
            "tools/call": self.call_tool,
            "tools/list": self.list_tools,
            "prompts/list": self.list_prompts,
            "prompts/get": self.get_prompt,
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read_resource,
            "completion/complete": self.complete,
            "skills/list": self.list_skills,
            "skills/get": self.get_skill,
            "resources/directory/read": self.read_directory,
        }
        self._spans = crib.pipeline.spans
        if self._spans is not None:
            self.methods = traced(self.methods, self._spans.telemetry)

    @classmethod
    async def over(
        cls, crib: Crib, library: McpLibrary | None = None, settings: McpServerSettings | None = None
    ) -> McpServer:
        """A server over a crib that was started."""
        settings = settings or McpServerSettings()
        secret = settings.secret or await kept_secret(crib.store, crib.pipeline.clock.now())
        return cls(crib, library, settings, secret)

    def result(self, reply: McpReply) -> bytes:
        """A result as the newest revision has it: it says what it is, and whose."""
        head = self._heads[reply.kind]
        if reply.body.startswith(_META):  # the head ends with an object of the same name
            return head[:-1] + b"," + reply.body[len(_META) :]
        return head + b"," + reply.body[1:] if len(reply.body) > 2 else head + b"}"

    @property
    def has_library(self) -> bool:
        """True if there may be prompts and resources, of the program's own or of servers."""
        return self.library is not None or bool(self.upstreams) or bool(self.skills)

    def capabilities(self, *, modern: bool) -> dict[str, Any]:
        """What the server can do."""
        has: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        if self.has_library:
            has["prompts"] = {"listChanged": True}
            has["resources"] = {"listChanged": True, "subscribe": True}
            has["completions"] = {}
        extensions: dict[str, Any] = {TASKS: {}} if modern else {}
        if self.skills:
            extensions[SKILLS] = {"directoryRead": True}
        return has | ({"extensions": extensions} if extensions else {})

    async def discover(self, request: McpRequest) -> McpReply:
        """Who the server is and what it can do."""
        made: dict[str, Any] = {"supportedVersions": list(SUPPORTED), "capabilities": self.capabilities(modern=True)}
        if self.settings.instructions:
            made["instructions"] = self.settings.instructions
        return McpReply(self.lists.cache(request, encode(made)))

    def welcome(self, version: str) -> bytes:
        """What answers the greeting of a client of an older revision."""
        made: dict[str, Any] = {
            "protocolVersion": version if version in LEGACY else LEGACY[0],
            "capabilities": self.capabilities(modern=False),
            "serverInfo": self.info,
        }
        if self.settings.instructions:
            made["instructions"] = self.settings.instructions
        return encode(made)

    async def mcp_session(self, request: McpRequest) -> McpSession:
        """What whoever asks can see."""
        return await self.sessions.of(request.principal)

    async def _call(
        self, request: McpRequest, mcp_session: McpSession, tool: Tool, arguments: bytes
    ) -> McpReply | Later:
        session = (
            await self.sessions.session(request.principal, request.connection)
            if request.connection
            else mcp_session.session
        )
        return await self.running.call(request, session, tool, arguments, self.shape(request))

    def shape(self, request: McpRequest) -> Shape:
        """How the result of a call is told to who asked for it in that way."""
        match request.method:
            case "tools/call":
                return _tool_shape
            case "prompts/get":
                return _prompt_shape
            case "completion/complete":
                return _passed_on
            case _:
                return lambda result, tool, modern: self.lists.cache(
                    request, _read_shape(result, tool, modern, request.needs("uri"))
                )

    # Tools

    async def list_tools(self, request: McpRequest) -> McpReply:
        """The tools that the principal may use."""
        await self.crib.registry.settle(owner=request.principal.name)
        return self.lists.tools(request, await self.mcp_session(request))

    async def call_tool(self, request: McpRequest) -> McpReply | Later:
        """Calls a tool."""
        mcp_session = await self.mcp_session(request)
        if mcp_session.tool(request.needs("name")) is None:
            await self.crib.registry.settle(request.needs("name"), request.principal.name)
        tool, arguments = self._tool(request, mcp_session)
        return await self._call(request, mcp_session, tool, arguments)

    def _tool(self, request: McpRequest, mcp_session: McpSession) -> tuple[Tool, bytes]:
        """The tool that a request names, and its arguments."""
        name = request.needs("name")
        tool = mcp_session.tool(name)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
        arguments = _arguments(request)
        if request.tool is not None:
            request.tool(tool, arguments)
        return tool, arguments

    def call_at_once(self, request: McpRequest, starter: Starter) -> McpReply | Awaitable[McpReply | Later] | None:
        """The same without a task, as far as it goes without a pause; None where it does not go that way at all."""
        mcp_session = self.sessions.known(request.principal)
        if mcp_session is None or request.connection or request.params.request_state is not UNSET:
            return None
        if self._spans is not None:
            return None
        if self.crib.registry.pending and mcp_session.tool(request.needs("name")) is None:
            return None
        tool, arguments = self._tool(request, mcp_session)
        call, made = self.running.call_request(request, mcp_session.session, tool, arguments), list[LiveCall]()
        task = starter.start(_accepted(mcp_session.session, call, made))
        if made and made[0].result is not None and not is_partial(made[0].result):
            return McpReply(tool_result(made[0].result, tool, modern=request.modern))
        return self._go_on(request, made, tool, task)

    async def _go_on(
        self, request: McpRequest, made: list[LiveCall], tool: Tool, task: Awaitable[None] | None
    ) -> McpReply | Later:
        if task is not None:
            await task
        return self.running.answer(request, made[0], tool, _tool_shape)

    # Prompts, resources, completion

    async def _shelves(self, request: McpRequest) -> McpSession:
        """What whoever asks can see, with what servers have beside tools."""
        if self.upstreams:
            await self.crib.registry.settle()
        mcp_session = await self.mcp_session(request)
        await self.upstreams.refresh(mcp_session)
        return mcp_session

    async def list_prompts(self, request: McpRequest) -> McpReply:
        """The prompts of the library and of servers."""
        return self.lists.prompts(request, await self._shelves(request))

    async def list_resources(self, request: McpRequest) -> McpReply:
        """The resources of the library and of servers."""
        return self.lists.resources(request, await self._shelves(request))

    async def list_templates(self, request: McpRequest) -> McpReply:
        """The templates of the library and of servers."""
        return self.lists.templates(request, await self._shelves(request))

    async def get_prompt(self, request: McpRequest) -> McpReply | Later:
        """The messages of a prompt."""
        name = request.needs("name")
        prompt = None if self.library is None else self.library.prompts.get(name)
        if prompt is not None:
            return await self._call(request, await self.mcp_session(request), prompt.tool, _arguments(request))
        mcp_session = await self._shelves(request)
        upstream = self.upstreams.prompt(mcp_session, name)
        if upstream is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name}")
        arguments = encode({"name": upstream.name, "arguments": Raw(_arguments(request))})
        return await self._call(request, mcp_session, upstream.tool, arguments)

    async def read_resource(self, request: McpRequest) -> McpReply | Later:
        """What a resource holds."""
        uri = request.needs("uri")
        own = None if self.library is None else self.library.find(uri)
        if own is not None:
            resource, variables = own
            return await self._call(request, await self.mcp_session(request), resource.tool, canonical(variables))
        mcp_session = await self._shelves(request)
        if (file := self.skills.file(mcp_session, uri)) is not None:
            return await self._call(request, mcp_session, file[0], canonical(file[1]))
        upstream = self.upstreams.resource(mcp_session, uri)
        if upstream is None:
            raise ProtocolError(
                INVALID_PARAMS if request.modern else NOT_FOUND, f"Unknown resource: {uri}", {"uri": uri}
            )
        return await self._call(request, mcp_session, upstream.tool, canonical({"uri": upstream.name}))

    async def list_skills(self, request: McpRequest) -> McpReply:
        """The skills of the crib and of servers."""
        mcp_session = await self._shelves(request)
        await self.skills.refresh()
        return self.lists.skills(request, mcp_session, self.skills.entries(mcp_session))

    async def get_skill(self, request: McpRequest) -> McpReply:
        """One skill, as the list has it."""
        mcp_session = await self._shelves(request)
        entry = self.skills.entry(mcp_session, request.needs("uri"))
        return McpReply(self.lists.cache(request, encode({"skill": entry})))

    async def read_directory(self, request: McpRequest) -> McpReply:
        """What lies in a folder of a skill."""
        mcp_session = await self._shelves(request)
        children = self.skills.directory(mcp_session, request.needs("uri"))
        return McpReply(self.lists.cache(request, encode({"resources": children})))

    async def complete(self, request: McpRequest) -> McpReply | Later:
        """What may stand for an argument of a prompt or of a template."""
        ref, argument = request.params.ref, request.params.argument
        if ref is UNSET or argument is UNSET:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: ref and argument are needed")
        completions = self._completions(ref)
        if completions is None:
            return await self._complete_upstream(request, ref, argument)
        values = await completed(
            completions.get(str(argument.get("name"))), str(argument.get("value", "")), _others(request)
        )
        shown = {"values": values[:MOST_COMPLETIONS], "total": len(values), "hasMore": len(values) > MOST_COMPLETIONS}
        return McpReply(encode({"completion": shown}))

    async def _complete_upstream(
        self, request: McpRequest, ref: Mapping[str, Any], argument: Mapping[str, Any]
    ) -> McpReply | Later:
        """Has a server complete an argument. Nobody is asked to confirm that: it is not completed then."""
        mcp_session = await self._shelves(request)
        completion = self.upstreams.completes(mcp_session, ref)
        if completion is None:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: ref is of no prompt or template of this server")
        upstream, meant = completion
        arguments = {"ref": meant, "argument": argument, "context": {"arguments": _others(request)}}
        if mcp_session.session.why(upstream.tool.id, arguments).verdict.effect != "allow":
            return McpReply(encode({"completion": {"values": [], "total": 0, "hasMore": False}}))
        return await self._call(request, mcp_session, upstream.tool, canonical(arguments))

    def _completions(self, ref: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if self.library is not None:
            name = ref.get("name") if ref.get("type") == "ref/prompt" else ref.get("uri")
            known: Mapping[str, Any] = (
                self.library.prompts if ref.get("type") == "ref/prompt" else self.library.resources
            )
            if isinstance(name, str) and name in known:
                complete: Mapping[str, Any] = known[name].complete
                return complete
        return None


def _arguments(request: McpRequest) -> bytes:
    arguments = request.params.arguments
    return bytes(arguments) if isinstance(arguments, Raw) else b"{}"


def _others(request: McpRequest) -> dict[str, str]:
    context = request.params.context
    arguments = {} if context is UNSET else context.get("arguments")
    return {str(name): str(value) for name, value in arguments.items()} if isinstance(arguments, dict) else {}


async def _accepted(session: Session, call: CallRequest, made: list[LiveCall]) -> None:
    """Accepts a call, and puts it where a caller that is no task finds it."""
    made.append(await session._accept(call))


def _tool_shape(result: Result, tool: Tool | None, modern: bool) -> bytes:
    return tool_result(result, tool, modern=modern)


def _passed_on(result: Result, tool: Tool | None, modern: bool) -> bytes:
    """The result of a server as it came."""
    return encode(_needed(result, modern))


def _prompt_shape(result: Result, tool: Tool | None, modern: bool) -> bytes:
    data = _needed(result, modern)
    if method_of(tool) is not None:
        return encode(data)
    return encode({"description": "" if tool is None else tool.description, **data})


def _read_shape(result: Result, tool: Tool | None, modern: bool, uri: str) -> bytes:
    data = _needed(result, modern)
    if method_of(tool) is not None:
        return encode(data)
    if tool is not None and "skills" in tool.metadata:
        return encode({"contents": [contents(result, uri)]})
    if "json" in data:
        data = {"mimeType": data["mimeType"], "text": encode(data["json"]).decode()}
    return encode({"contents": [{"uri": uri, **data}]})


def _needed(result: Result, modern: bool) -> dict[str, Any]:
    """What was made of a prompt or resource; there is no other way to say that it failed than an error."""
    if result.failure is not None:
        error = told_by_server(result).get("protocol_error")
        if isinstance(error, Mapping):
            raise ProtocolError(_code(error, modern), str(error["message"]), error["data"])
        code = INVALID_PARAMS if result.failure.code in ("invalid_arguments", "not_found", "denied") else INTERNAL
        raise ProtocolError(code, str(result.failure), {"code": result.failure.code})
    data: dict[str, Any] = result.data
    return data


def _code(error: Mapping[str, Any], modern: bool) -> int:
    """The code of a server's error; that of an unknown resource is another in the newest revision."""
    code = int(error["code"])
    if modern:
        return INVALID_PARAMS if code == NOT_FOUND else code
    unknown = isinstance(error["data"], Mapping) and "uri" in error["data"]
    return NOT_FOUND if code == INVALID_PARAMS and unknown else code
