"""Every recorded reply of explorers and nodes, replayed by a server that answers just that."""

from typing import Any

import pytest

from tests.chain.place import CLOSED, opened, replaying
from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.chain import Chain, Chains
from toolcrib.types import Result


def ids() -> list[str]:
    """The cases of the services that the chain toolkits ask."""
    return [case["id"] for case in case_data("chain-shapes/shapes.jsonl") if case["service"] != "brave"]


def within(expected: Any, got: Any) -> bool:
    """Whether what is expected is a part of what is there; lists by position."""
    if isinstance(expected, dict):
        return isinstance(got, dict) and all(name in got and within(one, got[name]) for name, one in expected.items())
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(within, expected, got))
    return bool(expected == got)


def check(expected: dict[str, Any], result: Result) -> None:
    """Compares a result with what a case expects."""
    assert result.ok is expected["ok"], result
    if "data" in expected:
        assert within(expected["data"], result.data), result.data
    if result.failure is not None:
        assert result.failure.code == expected["code"]
        assert result.failure.retryable is expected.get("retryable", result.failure.retryable)
        assert expected.get("message_contains", "") in str(result.failure)
        assert "message_not_contains" not in expected or expected["message_not_contains"] not in str(result.failure)


@requirement("shape.1", "shape.etherscan.1", "shape.etherscan.2", "shape.etherscan.3", "shape.sourcify.1")
@pytest.mark.parametrize("id", ids())
async def test_a_recorded_reply_gives_what_is_expected(id: str) -> None:
    case = next(case for case in case_data("chain-shapes/shapes.jsonl") if case["id"] == id)
    async with replaying(case["replies"]) as (server, url):
        listed = {
            service: url if service in case["replies"] else CLOSED for service in ("rpc", "sourcify", "etherscan")
        }
        chains = Chains(
            [Chain(1, "ethereum", listed["rpc"])],
            etherscan_url=listed["etherscan"],
            etherscan_key="test-key",
            sourcify_url=listed["sourcify"],
        )
        async with opened(chains, user=None) as session:
            result = await session.call(case["tool"], case["args"])
        check(case["expect"], result)
        for service, most in case["expect"].get("max_requests", {}).items():
            assert server.seen[service] <= most
