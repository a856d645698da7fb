"""Who may reach whom among agents: as Mermaid, as DOT, and as a tree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.tree import Tree

    from toolcrib.agent import Agents


class GraphEdge(NamedTuple):
    """One agent may reach another: by a transfer, by a call, or both."""

    source: str
    target: str
    transfer: bool
    call: bool
    returns: bool

    @property
    def words(self) -> str:
        """By which way."""
        ways = [("transfer, returns" if self.returns else "transfer")] if self.transfer else []
        return ", ".join([*ways, *(["call"] if self.call else [])])

    def data(self) -> dict[str, Any]:
        """The same as JSON."""
        via = [name for name in ("transfer", "call") if getattr(self, name)]
        return {"from": self.source, "to": self.target, "via": via, "returns": self.returns}


def edges(agents: Agents) -> list[GraphEdge]:
    """All of them, in the order of the agents."""
    registry, made = agents.registry, []
    for name, agent in registry.items():
        transfer, call = registry.reached(agent, "transfer"), registry.reached(agent, "call")
        for target in registry:
            if target in transfer or target in call:
                returns = target in transfer and transfer[target].returns
                made.append(GraphEdge(name, target, target in transfer, target in call, returns))
    return made


def mermaid(agents: Agents) -> str:
    """A flowchart: solid where the conversation is handed over, dotted where an agent only works for another."""
    ids = {name: f"a{number}" for number, name in enumerate(agents.registry)}
    lines = ["flowchart TD"]
    lines += [f"  {ids[name]}{_node(name, name == agents.default)}" for name in ids]
    lines += [
        f"  {ids[one.source]} {'-->' if one.transfer else '-.->'}|{one.words}| {ids[one.target]}"
        for one in edges(agents)
    ]
    return "\n".join(lines)


def _node(name: str, default: bool) -> str:
    return f'(["{name}"])' if default else f'["{name}"]'


def dot(agents: Agents) -> str:
    """The same for Graphviz."""
    lines = ["digraph agents {", "  node [shape=box];"]
    lines += [
        f"  {json.dumps(name)}{' [peripheries=2]' if name == agents.default else ''};" for name in agents.registry
    ]
    for one in edges(agents):
        style = "" if one.transfer else ", style=dashed"
        lines.append(f"  {json.dumps(one.source)} -> {json.dumps(one.target)} [label={json.dumps(one.words)}{style}];")
    return "\n".join([*lines, "}"])


def tree(agents: Agents) -> Tree:
    """A tree from the default agent, then from those that it does not reach; each agent is unfolded once."""
    from rich.text import Text
    from rich.tree import Tree

    below: dict[str, list[GraphEdge]] = {name: [] for name in agents.registry}
    for edge in edges(agents):
        below[edge.source].append(edge)
    seen: set[str] = set()

    def grow(branch: Tree, name: str) -> None:
        seen.add(name)
        for edge in below[name]:
            again = " …" if edge.target in seen and below[edge.target] else ""
            inner = branch.add(Text.assemble(edge.target, (f"  {edge.words}{again}", "dim")))
            if edge.target not in seen:
                grow(inner, edge.target)

    root = Tree(Text("agents", "bold"))
    for name in sorted(agents.registry, key=lambda one: one != agents.default):
        if name not in seen:
            grow(root.add(Text.assemble((name, "bold cyan"), "  default" if name == agents.default else "")), name)
    return root
