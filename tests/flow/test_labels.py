"""Labels of tools and roles of arguments: declared, declared by the operator, and guessed."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.requirements import requirement
from toolcrib import BadTool, Tool, tool
from toolcrib.origins.flow import labels_of, roles_of
from toolcrib.sources.declarations import check, declare


def made(name: str, **more: Any) -> Tool:
    return Tool(name=name, description="Does something.", **more)


@requirement("flow.label.1")
@pytest.mark.parametrize(
    ("one", "label"),
    [
        (made("get_balance"), "trusted"),
        (made("search_emails"), "untrusted"),
        (made("readInbox"), "untrusted"),
        (made("list", namespace="slack"), "untrusted"),
        (made("get_balance", trusted=False), "untrusted"),
        (made("get_balance", trusted=False, vouched=True), "trusted"),
        (made("search_emails", labels=("trusted",)), "trusted"),
    ],
)
def test_results_are_trusted_unless_somebody_else_writes_them(one: Tool, label: str) -> None:
    assert labels_of(one)[0][0] == label


@requirement("flow.label.1")
@pytest.mark.parametrize("labels", [("secret",), ("trusted", "untrusted"), ("public", "private")])
def test_a_bad_label_is_refused_where_the_tool_is_made(labels: tuple[str, ...]) -> None:
    with pytest.raises(BadTool, match="labels"):
        made("look", labels=labels)
    with pytest.raises(BadTool, match="labels"):
        check({"x.*": {"labels": list(labels)}})


@requirement("flow.role.1")
def test_roles_are_declared_or_guessed_by_format_and_name() -> None:
    @tool
    async def act(
        whom: Annotated[str, Field(json_schema_extra={"x-toolcrib-role": "recipient"})],
        user_email: str,
        url: str,
        file_id: int,
    ) -> None:
        """Act."""

    @tool
    async def tell(cents: int, start_time: str, body: str, urgent: bool = False) -> None:
        """Tell."""

    found = {name: (role, declared) for one in (act, tell) for name, role, declared in roles_of(one)}
    assert found == {
        "whom": ("recipient", True),
        "user_email": ("recipient", False),
        "url": ("destination", False),
        "file_id": ("identifier", False),
        "cents": ("amount", False),
        "start_time": ("amount", False),
        "body": ("content", False),
        "urgent": ("option", False),
    }


@requirement("flow.role.1")
def test_a_bad_role_is_refused_where_the_tool_is_made() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "x-toolcrib-role": "whom"}}}
    with pytest.raises(BadTool, match="'whom' is none of recipient"):
        made("send", input_schema=schema)
    with pytest.raises(BadTool, match="is none of recipient"):
        check({"x.send": {"roles": {"to": "whom"}}})


@requirement("flow.label.1", "flow.role.1")
def test_an_operator_declares_both_of_tools_of_others() -> None:
    schema = {"type": "object", "properties": {"body": {"type": "string"}}}
    said = {"default.send": {"labels": ["untrusted", "public"], "roles": {"body": "recipient"}}}
    check(said)
    one = declare(made("send", input_schema=schema), said)
    assert labels_of(one) == [("untrusted", True), ("public", True)]
    assert roles_of(one) == [("body", "recipient", True)]
