"""The prompts and resources that the official suite asks for."""

from __future__ import annotations

import base64
from typing import Any

from tests.conformance.samples import DOT
from toolcrib import Block, Context, block
from toolcrib.serve.mcp import McpLibrary

library = McpLibrary()
CONTEXT = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}


@library.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@library.prompt(complete={"arg1": ["paris", "park", "party", "test"]})
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: The first.
        arg2: The second.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@library.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the suite says it so
    """A prompt that holds a resource."""
    text = "Embedded resource content for testing."
    inside = block("resource", uri=resourceUri, mime_type="text/plain", text=text)
    return [inside, "Please process the embedded resource above."]


@library.prompt
async def test_prompt_with_image() -> list[Block | str]:
    """A prompt that holds a picture."""
    return [block("image", data=DOT, mime_type="image/png"), "Please analyze the image above."]


@library.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks before it is made."""
    answer = await ctx.ask("What context should the prompt use?", schema=CONTEXT, key="user_context")
    return f"Work in this context: {answer.value['context']}"


@library.resource("test://static-text", name="static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@library.resource("test://static-binary", name="static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture."""
    return base64.b64decode(DOT)


@library.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
async def watched() -> str:
    """A text that may change."""
    return "Watched"


@library.resource("test://template/{id}/data", name="template", mime_type="application/json", complete={"id": ["123"]})
async def templated(id: str) -> dict[str, Any]:
    """Data by id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
