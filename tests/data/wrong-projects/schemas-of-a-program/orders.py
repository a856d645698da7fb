"""A tool whose schema is written by hand."""

from toolcrib import tool


@tool(
    read_only=True,
    input_schema={
        "type": "object",
        "properties": {"order": {"type": "string", "patern": "^A-"}, "minimun": {"type": "integer"}},
        "required": ["ordr"],
    },
)
def look_up(order: str = "A-7", minimun: int = 1) -> str:
    """Look up an order."""
    return order
