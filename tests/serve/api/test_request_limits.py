"""How many requests and streams somebody may have, to the one."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.limits import RequestLimiter, ServeLimits
from toolcrib.serve.principal import Principal

ADA, BOB, EVE = Principal("ada"), Principal("bob"), Principal("eve")


def refusal(gate: RequestLimiter, principal: Principal, *, stream: bool = False) -> tuple[str, float | None]:
    with pytest.raises(ApiError) as error:
        gate.spare(principal) if stream else gate.enter(principal)
    return error.value.detail.code, error.value.detail.retry_after


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is no rate"):
        ServeLimits(rate="often")


def test_so_many_requests_of_one_are_under_way_and_no_more() -> None:
    gate = RequestLimiter(ServeLimits(requests_each=2))
    gate.enter(ADA)
    gate.enter(ADA)
    assert refusal(gate, ADA) == ("too_many", 1)
    gate.enter(BOB)
    assert gate.under_way == 3
    gate.leave(ADA)
    assert gate.under_way == 2
    gate.enter(ADA)
    assert refusal(gate, ADA) == ("too_many", 1)
    for principal in (ADA, ADA, BOB):
        gate.leave(principal)
    assert gate.under_way == 0


def test_a_rate_lets_its_number_through_at_once_and_tells_when_the_next_may_come() -> None:
    gate = RequestLimiter(ServeLimits(rate="3/h"))
    for _ in range(3):
        gate.enter(ADA)
    code, again = refusal(gate, ADA)
    assert code == "rate_limited"
    assert again is not None
    assert 1100 < again <= 1200
    assert gate.under_way == 3, "what was refused is not under way"
    gate.enter(BOB)


def test_a_stream_counts_as_one_for_as_long_as_it_is_open_and_not_as_a_request() -> None:
    gate = RequestLimiter(ServeLimits(streams_each=1, streams=2))
    gate.enter(ADA)
    with gate.stream(ADA):
        assert (gate.open, gate.under_way) == (1, 0)
        assert refusal(gate, ADA, stream=True) == ("too_many", 5)
        gate.spare(BOB)
    assert (gate.open, gate.under_way) == (0, 1)
    gate.spare(ADA)
    gate.leave(ADA)
    assert gate.under_way == 0


def test_a_stream_that_breaks_is_counted_no_more() -> None:
    gate = RequestLimiter(ServeLimits())
    gate.enter(ADA)
    with pytest.raises(OSError, match="gone"), gate.stream(ADA):
        raise OSError("gone")
    assert (gate.open, gate.under_way) == (0, 1)


def opened(gate: RequestLimiter, stack: ExitStack, *principals: Principal) -> None:
    for principal in principals:
        gate.enter(principal)
        stack.enter_context(gate.stream(principal))


def test_all_streams_together_have_a_limit() -> None:
    gate = RequestLimiter(ServeLimits(streams=2))
    with ExitStack() as stack:
        opened(gate, stack, ADA)
        gate.spare(BOB)
        opened(gate, stack, BOB)
        assert refusal(gate, EVE, stream=True) == ("unavailable", 5)
        assert refusal(gate, ADA, stream=True) == ("unavailable", 5)


def test_where_owners_share_nobody_has_more_streams_than_are_left() -> None:
    gate = RequestLimiter(ServeLimits(streams=4))
    gate.shared = True
    with ExitStack() as stack:
        opened(gate, stack, ADA, ADA)
        assert refusal(gate, ADA, stream=True) == ("too_many", 5)
        opened(gate, stack, BOB)
        assert refusal(gate, BOB, stream=True) == ("too_many", 5)
        opened(gate, stack, EVE)
        assert refusal(gate, EVE, stream=True) == ("too_many", 5)
        assert refusal(gate, Principal("ida"), stream=True)[0] in ("too_many", "unavailable")


def test_no_more_rates_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.serve.api.limits.MOST_KNOWN", 2)
    gate = RequestLimiter(ServeLimits(rate="1000000/s"))
    for number in range(20):
        gate.enter(Principal(f"p{number}"))
    assert len(gate._ahead) <= 3
    slow = RequestLimiter(ServeLimits(rate="1/h"))
    for principal in (ADA, BOB, EVE):
        slow.enter(principal)
    assert refusal(slow, ADA)[0] == "rate_limited", "whoever was heard of lately is not forgotten"
