"""What agents are to calls. Pyright, unlike mypy, asks that parameters have the names of the protocol."""

import inspect
from typing import Any

import pytest

from tests.shared import nonempty
from toolcrib._call.ports import AgentRunner, AgentScope
from toolcrib.agent import Agents
from toolcrib.agent.run_scope import RunScope


@pytest.mark.parametrize(("port", "made"), [(AgentRunner, Agents), (AgentScope, RunScope)])
def test_parameters_are_named_as_in_the_protocol(port: Any, made: Any) -> None:
    methods = {name: one for name, one in vars(port).items() if inspect.isfunction(one) and not name.startswith("_")}
    for name, method in nonempty(methods.items()):
        named = inspect.signature(getattr(made, name)).parameters
        assert [*named] == [*inspect.signature(method).parameters], name
