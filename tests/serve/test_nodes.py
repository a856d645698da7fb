"""Two servers over one store: any of them goes on with what the other began."""

from __future__ import annotations

from typing import Any

from tests.requirements import requirement
from tests.serve.place import TASKS, serving
from tests.serve.test_questions import until
from tests.serve.tools import TOOLS
from toolcrib import Crib

FORM: dict[str, Any] = {"elicitation": {}}


@requirement("mcp.server.5", "mcp.server.6")
async def test_a_client_may_come_back_to_another_node(postgres_url: str, nats_url: str) -> None:
    cribs = [Crib(TOOLS, store=postgres_url, engine=nats_url) for _ in range(2)]
    ada = {"action": "accept", "content": {"name": "Ada"}}
    async with serving(cribs[0]) as one, serving(cribs[1]) as two:
        asked = await one.call("greet", can=FORM)
        given = {"requestState": asked["requestState"], "inputResponses": {"user_name": ada}}
        assert (await two.call("greet", can=FORM, with_=given))["content"][0]["text"] == "Hello, Ada!"

        task = {"taskId": (await two.call("job", can=FORM | TASKS))["taskId"]}
        await until(one, task, "input_required", FORM | TASKS)
        responses = {"inputResponses": {"first": ada, "second": ada}}
        await one.result("tasks/update", task | responses, can=FORM | TASKS)
        done = await until(two, task, "completed", FORM | TASKS)
        assert done["result"]["content"][0]["text"] == "Ada and Ada"

        asked = await two.call("erase", {"what": "it"}, can=FORM)
        yes = {"inputResponses": {name: {"action": "accept"} for name in asked["inputRequests"]}}
        erased = await one.call("erase", {"what": "it"}, can=FORM, with_={"requestState": asked["requestState"], **yes})
        assert erased["content"][0]["text"] == "erased it"
