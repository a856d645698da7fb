"""The page of the score: one part a suite, each with the command that writes it and the day on which it ran."""

import re
from dataclasses import dataclass

from bench.score.suite import Score

HEAD = """\
# Score

Public suites, carried out by one command: `make score`. What they need comes from registries once; nothing else is
fetched, and no model takes part. A suite that is partly failed is shown with its failures; nothing is tuned to a suite.
Peers stand beside Toolcrib where they can run a suite, at the versions that are named. Each part says when it ran last;
`make score ARGS="--write-docs openapi"` runs one, and leaves the others as they are. What Toolcrib costs beside others
is on [Benchmarks](benchmarks.md); what holds under faults on [Reliability](reliability.md).
"""
_PART = re.compile(r"^<!-- suite: ([\w-]+) -->\n(.*?)(?=^<!-- suite: |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """What the page shows of one suite."""

    name: str
    score: Score
    measured: str

    def markdown(self) -> str:
        """Return the part as text."""
        score = self.score
        lines = [
            f"<!-- suite: {self.name} -->",
            f"## {score.suite}",
            "",
            f"| counted | {' | '.join(score.columns)} |",
            "|---" + "|---:" * len(score.columns) + "|",
            *(f"| {' | '.join(row)} |" for row in score.rows),
            "",
            f'{self.measured}; `make score ARGS="--write-docs {self.name}"`.',
        ]
        if score.note:
            lines += ["", score.note]
        if score.failures:
            lines += ["", "Failed:", "", *(f"- {_line(name)}" for name in score.failures)]
        return "\n".join([*lines, ""])


def parts(page: str) -> dict[str, str]:
    """Return the parts of a page by the names of their suites."""
    return {name: f"<!-- suite: {name} -->\n{text.rstrip()}\n" for name, text in _PART.findall(page)}


def text_of(texts: list[str]) -> str:
    """Return the page with these parts."""
    return "\n".join([HEAD, *texts])


def _line(text: str) -> str:
    return " ".join(text.replace("<", "&lt;").split())
