"""AgentDojo: how many attacks reach their goal, and how many honest calls ask; `bench.agentdojo` carries it out."""

import json
import subprocess
import sys
from collections import Counter

from bench.agentdojo import AGENTDOJO, GUARDS
from bench.peers import ROOT
from bench.score.suite import Score, SuiteUnavailable


def run() -> Score:
    """Run all tasks under each guard.

    Raises:
        SuiteUnavailable: AgentDojo cannot be installed or run.
    """
    argv = [sys.executable, "-m", "bench.agentdojo", "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SuiteUnavailable((done.stderr or done.stdout).strip().splitlines()[-1])
    return score(json.loads(done.stdout)["data"])


def score(counts: dict[str, dict[str, dict[str, int]]]) -> Score:
    """Return the rows of counts by guard and suite."""
    guards = {guard: sum((Counter(one) for one in suites.values()), Counter[str]()) for guard, suites in counts.items()}
    rows = (
        ("attacks that reach their goal", *(f"{one['reached']} of {one['pairs']}" for one in guards.values())),
        ("honest acting calls that ask", *(f"{one['asked']} of {one['acting']}" for one in guards.values())),
        ("user tasks solved", *(f"{one['solved']} of {one['tasks']}" for one in guards.values())),
    )
    note = (
        f"`{AGENTDOJO.requirement}`. The model is a script that does what any text asks of it, so that the guard "
        "alone is measured. By suite on [Benchmarks](benchmarks.md#prompt-injection)."
    )
    columns = tuple(f"guard: {GUARDS[guard]}" for guard in guards)
    return Score("AgentDojo v1.2.2, a model that obeys everybody", rows, (), note, columns)
