"""The tools that the official suite calls by name. Ordinary tools: what is asked of a client goes by `ask_client`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.conformance.samples import DOT, TONE
from toolcrib import Block, Context, Tool, ToolFailure, block, tool
from toolcrib.serve.mcp import ask_client, elicit, roots, sample

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def form(**fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


@tool(read_only=True)
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool(read_only=True)
async def test_image_content() -> Block:
    """Give a picture."""
    return block("image", data=DOT, mime_type="image/png")


@tool(read_only=True)
async def test_audio_content() -> Block:
    """Give a sound."""
    return block("audio", data=TONE, mime_type="audio/wav")


@tool(read_only=True)
async def test_embedded_resource() -> Block:
    """Give a resource."""
    text = "This is an embedded resource content."
    return block("resource", uri="test://embedded-resource", mime_type="text/plain", text=text)


@tool(read_only=True)
async def test_multiple_content_types() -> list[Block]:
    """Give a text, a picture and a resource."""
    data = '{"test":"data","value":123}'
    return [
        block("text", text="Multiple content types test:"),
        block("image", data=DOT, mime_type="image/png"),
        block("resource", uri="test://mixed-content-resource", mime_type="application/json", text=data),
    ]


@tool(read_only=True)
async def test_tool_with_logging(ctx: Context) -> str:
    """Write three log lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.activity("log", {"level": "info", "data": line})
        await asyncio.sleep(0.05)
    return "Logged three lines"


@tool(read_only=True)
async def test_logging_tool(ctx: Context) -> str:
    """Write a log line."""
    ctx.activity("log", {"level": "info", "data": "A line that nobody asked for"})
    await asyncio.sleep(0.05)
    return "Logged a line"


@tool(read_only=True, repeat=None)
async def test_error_handling() -> str:
    """Fail."""
    raise ToolFailure("failed", "This tool intentionally returns an error for testing")


@tool(read_only=True)
async def test_tool_with_progress(ctx: Context) -> str:
    """Take three steps."""
    for step in (0, 50, 100):
        ctx.progress(f"Completed step {step} of 100", loaded=step, total=100)
        await asyncio.sleep(0.12)  # of progress that comes faster only the newest is told
    return "Took three steps"


@tool(read_only=True)
async def test_reconnection() -> str:
    """Take longer than a stream stays open."""
    await asyncio.sleep(2.5)
    return "Reconnection test completed"


@tool(read_only=True)
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Ask the client's model."""
    given = await ask_client(ctx, answer=sample(prompt, 100))
    return f"LLM response: {given['answer']['content'].get('text')}"


@tool(read_only=True)
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask the client's user."""
    fields = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    given = (await ask_client(ctx, user=elicit(message, fields)))["user"]
    return f"User response: action={given['action']}, content={given.get('content')}"


@tool(read_only=True)
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with defaults."""
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    wish = elicit("Please review the defaults", {"type": "object", "properties": fields, "required": []})
    given = (await ask_client(ctx, defaults=wish))["defaults"]
    return f"Elicitation completed: action={given['action']}, content={given.get('content')}"


def _titled(*names: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": name} for number, name in enumerate(names, 1)]


@tool(read_only=True)
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with all kinds of choices."""
    plain = ["option1", "option2", "option3"]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")},
        },
    }
    wish = elicit("Please choose", {"type": "object", "properties": fields, "required": []})
    given = (await ask_client(ctx, choices=wish))["choices"]
    return f"Elicitation completed: action={given['action']}, content={given.get('content')}"


@tool(read_only=True, repeat=None)
async def test_missing_capability(ctx: Context) -> str:
    """Need the client's model."""
    given = await ask_client(ctx, answer=sample("Anything", 10))
    return str(given["answer"]["content"])


@tool(read_only=True)
async def test_streaming_elicitation(ctx: Context) -> str:
    """Tell something, then ask."""
    ctx.progress("about to ask", 0.5)
    given = await ask_client(ctx, user=elicit("What is your name?", NAME))
    return str(given["user"])


# Input required


@tool(read_only=True)
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.ask("What is your name?", schema=NAME, key="user_name")
    return f"Hello, {answer.value['name']}!"


@tool(read_only=True)
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model for a capital."""
    given = await ask_client(ctx, capital_question=sample("What is the capital of France?", 100))
    return str(given["capital_question"]["content"]["text"])


@tool(read_only=True)
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    given = await ask_client(ctx, client_roots=roots())
    return ", ".join(root["uri"] for root in given["client_roots"]["roots"])


@tool(read_only=True)
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation."""
    answer = await ctx.ask("Please confirm", schema=form(ok={"type": "boolean"}), key="confirm")
    return f"state-ok: {answer.value['ok']}"


@tool(read_only=True)
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation whose state is then changed."""
    answer = await ctx.ask("Please confirm", schema=form(ok={"type": "boolean"}), key="confirm")
    return f"confirmed: {answer.value['ok']}"


@tool(read_only=True)
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask for three things at once."""
    given = await ask_client(
        ctx,
        user_name=elicit("What is your name?", NAME),
        greeting=sample("Generate a greeting", 50),
        client_roots=roots(),
    )
    return f"{given['greeting']['content']['text']} {given['user_name']['content']['name']}"


@tool(read_only=True)
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one after the other."""
    name = await ctx.ask("Step 1: What is your name?", schema=NAME, key="step1")
    colour = await ctx.ask("Step 2: What is your favorite color?", schema=form(color={"type": "string"}), key="step2")
    return f"{name.value['name']} likes {colour.value['color']}"


@tool(read_only=True)
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask for whatever the client can do."""
    given = await ask_client(ctx, form=elicit("What is your name?", NAME), model=sample("Say a name", 10))
    return ", ".join(given)


# Tasks


@tool(read_only=True)
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool(read_only=True, background=True, timeout=120, repeat=None)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


@tool(read_only=True, background=True, repeat=None, metadata={"mcp": {"task": "required"}})
async def failing_job() -> str:
    """Fail after a while."""
    await asyncio.sleep(1)
    raise ToolFailure("failed", "The job failed")


@tool(read_only=True, background=True, repeat=None)
async def protocol_error_job() -> str:
    """Break."""
    await asyncio.sleep(0.2)
    raise RuntimeError("broken")


@tool(read_only=True, background=True, repeat=None)
async def confirm_delete(ctx: Context, filename: str) -> str:
    """Delete a file once somebody agreed."""
    answer = await ctx.ask(f"Delete {filename}?", schema=form(confirm={"type": "boolean"}))
    return f"Deleted {filename}" if answer.value["confirm"] else f"Kept {filename}"


@tool(read_only=True, background=True, repeat=None)
async def multi_input(ctx: Context) -> str:
    """Ask for two things that may be answered one at a time."""
    given = await ask_client(ctx, first=elicit("What is your name?", NAME), second=elicit("And yours?", NAME))
    return " and ".join(one["content"]["name"] for one in given.values())


@tool(read_only=True, metadata={"mcp": {"task": "required"}})
async def test_tool_with_task(ctx: Context) -> str:
    """Ask, then take longer than a request should."""
    answer = await ctx.ask("What is your name?", schema=NAME, key="user_name")
    await asyncio.sleep(1.5)
    return f"Done for {answer.value['name']}"


# Schemas


async def _shown(ctx: Any, values: Mapping[str, Any]) -> Any:
    return dict(values)


json_schema_2020_12_tool = Tool(
    name="json_schema_2020_12_tool",
    description="A tool whose schema uses what JSON Schema 2020-12 has.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}, {"required": ["name"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": []},
        "additionalProperties": False,
    },
    run=_shown,
)

test_custom_header = Tool(
    name="test_custom_header",
    description="A tool one of whose arguments stands in a header.",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    run=_shown,
)

TOOLS = [value for value in list(globals().values()) if isinstance(value, Tool)]
