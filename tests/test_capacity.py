"""The capacity model adds up."""

import math

import pytest

from bench.capacity import MEASURED, Demand, Part, largest, load_of, memory_gb, parts, report, stored_gb, walls
from tests.requirements import requirement


@requirement("scale.capacity.1")
def test_the_load_of_a_part_is_its_cost_times_the_calls() -> None:
    load = load_of(Part("database", 16, shared=False), 100_000, full=0.6)
    assert load.busy == pytest.approx(100_000 * MEASURED["database"].amount / 1e6)
    assert load.count == math.ceil(load.busy / (16 * 0.6))
    assert load.each == pytest.approx(load.busy / (load.count * 16))
    assert load.without_one is None  # its sessions wait for its standby


@requirement("scale.capacity.1")
@pytest.mark.parametrize("calls", [1.0, 5_000.0, 6_061.0, 100_000.0])
def test_no_part_is_busier_than_it_may_be_and_none_too_many_are_taken(calls: float) -> None:
    known = parts(16)
    assert known
    for part in known:
        load = load_of(part, calls, full=0.6)
        assert load.each <= 0.6 + 1e-9
        assert load.count == 1 or largest(part, load.count - 1, 0.6) < calls
        assert largest(part, load.count, 0.6) >= calls - 1e-6


@requirement("scale.capacity.1")
def test_the_work_of_one_that_fails_moves_to_the_others_or_nobody_is_left() -> None:
    two = load_of(Part("api", 1, shared=True), 10_000, full=0.6)
    assert two.count == 2
    assert two.without_one == pytest.approx(2 * two.each)
    assert load_of(Part("api", 1, shared=True), 10, full=0.6).without_one == math.inf


@requirement("scale.capacity.1")
def test_the_first_wall_is_where_a_single_server_is_full() -> None:
    (calls, what), (second, _) = walls(8, full=0.5)
    assert what == "one database server of 8 cores"
    assert calls == pytest.approx(8 * 0.5 / (MEASURED["database"].amount / 1e6))
    assert second > calls


@requirement("scale.capacity.1")
def test_memory_and_storage_grow_with_sessions_and_time() -> None:
    demand = Demand(calls=1000, sessions=1_000_000, kept_s=86_400)
    assert memory_gb(demand) == pytest.approx(MEASURED["session"].amount / 1000)
    assert stored_gb(demand) == pytest.approx(86_400 * 1000 * MEASURED["stored"].amount / 1e9)
    text = report(demand, 16, 0.6)
    assert all(cost.source in text for cost in MEASURED.values())
    assert "Computed: all the rest" in text
