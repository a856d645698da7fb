import asyncio
import json

from toolcrib import Crib
from toolcrib.interop import aios, awaken

THEIRS = """[{"name": "weigh", "description": "Weigh a parcel", "timeout_secs": 30,
  "input_schema": {"type": "object", "properties": {"parcel": {"type": "string"}}, "required": ["parcel"]}}]"""


async def main() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        await session.offer([aios.to_tool(definition) for definition in json.loads(THEIRS)])

        wanted = aios.to_call(aios.loads("ToolCall", '{"call_id":"c1","tool_name":"weigh","input":{"parcel":"p7"}}'))
        call = await session.submit(wanted.tool, wanted.args, provider_id=wanted.provider_id)
        (question,) = await session.questions()
        print(awaken.dumps("SuspendTicket", awaken.from_question(question)))

        done = aios.loads("ToolResult", '{"call_id":"c1","tool_name":"weigh","output":{"grams":820}}')
        await session.answer(question.id, "accept", aios.to_result(done).data)
        result = await session.result(call.id)
        print(awaken.dumps("ToolResult", awaken.from_result("weigh", result)))


asyncio.run(main())
