"""What a policy adds to a call, and how long it takes to list the tools of a large catalog."""

from bench.probe import probe
from bench.section import Section


def measure(quick: bool) -> Section:
    """A call judged by no rules and by 1,000; the tools of a session of 10,000."""
    found = probe("judging", 200 if quick else 2_000)
    return Section(
        name="judging",
        title="Judging a call, and listing many tools",
        columns=("row", "result"),
        cells=(
            ("a call, no rules", f"{found['none_us']:.1f} us"),
            ("a call, 1,000 rules", f"{found['many_us']:.1f} us"),
            ("what 1,000 rules add", f"{found['many_us'] - found['none_us']:.1f} us"),
            ("a session lists 10,000 tools, after one was added", f"{found['first_ms']:.2f} ms"),
            ("the same again", f"{found['again_ms']:.2f} ms"),
        ),
        notes=(
            "CPU per call of `add` in memory; median of the turns, both cribs by turns.",
            "Goal: 1,000 rules add at most 10 us; 10,000 tools are listed for a session in under 5 ms.",
        ),
        data=found,
    )
