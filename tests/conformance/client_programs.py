"""Programs of other people's clients, each with the interface of its library: what they get from a server, as JSON.

Each takes an address (`SDK` also a command) and prints an object: the number of `tools`, what the `call` of a tool
gave, and what a `resource` and a `prompt` gave. What is not in the object, the library has no interface for.
"""

SDK = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters
async def main():
    words = sys.argv[1:]
    place = words[0] if len(words) == 1 else StdioServerParameters(command=words[0], args=words[1:])
    async with Client(place) as client:
        tools = (await client.list_tools()).tools
        call = await client.call_tool("test_simple_text", {})
        read = await client.read_resource("test://static-text")
        prompt = await client.get_prompt("test_simple_prompt", {})
        print(json.dumps({"revision": client.protocol_version, "tools": len(tools), "call": call.content[0].text,
                          "resource": read.contents[0].text, "prompt": prompt.messages[0].content.text}))
asyncio.run(main())
"""

FASTMCP = """
import asyncio, json, sys
from fastmcp import Client
async def main():
    async with Client(sys.argv[1]) as client:
        tools = await client.list_tools()
        call = await client.call_tool("test_simple_text", {})
        read = await client.read_resource("test://static-text")
        prompt = await client.get_prompt("test_simple_prompt", {})
        print(json.dumps({"tools": len(tools), "call": call.content[0].text,
                          "resource": read[0].text, "prompt": prompt.messages[0].content.text}))
asyncio.run(main())
"""

LANGCHAIN = """
import asyncio, json, sys
from langchain_mcp_adapters.client import MultiServerMCPClient
async def main():
    client = MultiServerMCPClient({"crib": {"url": sys.argv[1], "transport": "streamable_http"}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    call = await tools["test_simple_text"].ainvoke({})
    read = await client.get_resources("crib", uris=["test://static-text"])
    prompt = await client.get_prompt("crib", "test_simple_prompt")
    print(json.dumps({"tools": len(tools), "call": str(call), "resource": read[0].as_string(),
                      "prompt": prompt[0].content}))
asyncio.run(main())
"""

PYDANTIC_AI = """
import asyncio, json, sys
from pydantic_ai.mcp import MCPToolset
async def main():
    async with MCPToolset(sys.argv[1]) as toolset:
        tools = await toolset.list_tools()
        call = await toolset.direct_call_tool("test_simple_text", {})
        read = await toolset.read_resource("test://static-text")
        prompt = await toolset.get_prompt("test_simple_prompt")
        print(json.dumps({"tools": len(tools), "call": str(call), "resource": str(read), "prompt": str(prompt)}))
asyncio.run(main())
"""

OPENAI_AGENTS = """
import asyncio, json, sys
from agents.mcp import MCPServerStreamableHttp
async def main():
    async with MCPServerStreamableHttp({"url": sys.argv[1]}, client_session_timeout_seconds=60) as server:
        tools = await server.list_tools()
        call = await server.call_tool("test_simple_text", {})
        read = await server.read_resource("test://static-text")
        prompt = await server.get_prompt("test_simple_prompt")
        print(json.dumps({"tools": len(tools), "call": call.content[0].text, "resource": read.contents[0].text,
                          "prompt": prompt.messages[0].content.text}))
asyncio.run(main())
"""

ADK = """
import asyncio, json, sys
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import InMemorySessionService
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.adk.tools.tool_context import ToolContext
async def main():
    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=sys.argv[1]))
    tools = {tool.name: tool for tool in await toolset.get_tools()}
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="interop", user_id="ada")
    invocation = InvocationContext(session_service=sessions, invocation_id="i", agent=LlmAgent(name="interop"),
                                   session=session)
    call = await tools["test_simple_text"].run_async(args={}, tool_context=ToolContext(invocation))
    named = {(await toolset.get_resource_info(name))["uri"]: name for name in await toolset.list_resources()}
    read = await toolset.read_resource(named["test://static-text"])
    await toolset.close()
    print(json.dumps({"tools": len(tools), "call": str(call), "resource": str(read)}))
asyncio.run(main())
"""

_TYPESCRIPT = """
const client = new Client({name: "interop", version: "1"});
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const {tools} = await client.listTools();
const call = await client.callTool({name: "test_simple_text", arguments: {}});
const read = await client.readResource({uri: "test://static-text"});
const prompt = await client.getPrompt({name: "test_simple_prompt"});
console.log(JSON.stringify({tools: tools.length, call: call.content[0].text, resource: read.contents[0].text,
                            prompt: prompt.messages[0].content.text}));
process.exit(0);
"""
TYPESCRIPT_1 = (
    """
import {Client} from "@modelcontextprotocol/sdk/client/index.js";
import {StreamableHTTPClientTransport} from "@modelcontextprotocol/sdk/client/streamableHttp.js";
"""
    + _TYPESCRIPT
)
TYPESCRIPT_2 = 'import {Client, StreamableHTTPClientTransport} from "@modelcontextprotocol/client";\n' + _TYPESCRIPT

INSPECTOR = """
import {spawnSync} from "node:child_process";
const cli = "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js";
const ask = (...words) => {
  const done = spawnSync(process.execPath, [cli, process.argv[2], "--transport", "http", ...words]);
  if (done.status !== 0) { console.error(done.stderr.toString() || done.stdout.toString()); process.exit(1); }
  return JSON.parse(done.stdout.toString());
};
const tools = ask("--method", "tools/list").tools.length;
const call = ask("--method", "tools/call", "--tool-name", "test_simple_text").content[0].text;
const resource = ask("--method", "resources/read", "--uri", "test://static-text").contents[0].text;
const prompt = ask("--method", "prompts/get", "--prompt-name", "test_simple_prompt").messages[0].content.text;
console.log(JSON.stringify({tools, call, resource, prompt}));
"""
