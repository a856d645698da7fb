"""The catalog: every tool of every source, who wins where two have one id, and what a session can see of it."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from toolcrib.errors import Refused
from toolcrib.schema import nearest
from toolcrib.tool import Tool

_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


class CatalogView:
    """The tools of one set of namespaces, by id, by bare name and by the name a model sees.

    A tool that says `listed: False` in its metadata is called by its id alone, and stands in `all` only. `own` are
    those that not all owners have.
    """

    def __init__(self, tools: Iterable[Tool], own: tuple[Tool, ...] = ()) -> None:
        self.own = own
        self.all = sorted(tools, key=lambda tool: tool.id)
        self.tools = [tool for tool in self.all if tool.metadata.get("listed", True)]
        self.names: dict[str, Tool] = {tool.id: tool for tool in self.all}
        self.ambiguous: dict[str, list[str]] = {}
        by_name: dict[str, list[Tool]] = {}
        for tool in self.tools:
            if tool.namespace != "client":
                by_name.setdefault(tool.name, []).append(tool)
        for tool in self.tools:
            if tool.namespace == "client":  # a client's tool stands behind every other of its name
                by_name.setdefault(tool.name, [tool])
        for name, namesakes in by_name.items():
            if len(namesakes) > 1:
                self.ambiguous[name] = [tool.id for tool in namesakes]
            else:
                self.names.setdefault(name, namesakes[0])

    def also(self, alias: str, namespace: str) -> None:
        """Let the tools of a namespace be called by another name of it too."""
        for tool in self.all:
            if tool.namespace == namespace:
                self.names.setdefault(f"{alias}.{tool.name}", tool)

    def model_names(self, taken: Mapping[str, str] | None = None, gone: Iterable[str] = ()) -> dict[str, Tool]:
        """What a model calls them, within the letters that every provider takes; `taken` names keep their ids.

        Ids of tools that are `gone` count as namesakes still.
        """
        local = Counter(tool.name for tool in self.tools if _is_local(tool))
        local.update(id.partition(".")[2] for id in gone)
        used = dict(taken or {})
        known = {id: name for name, id in used.items()}
        named: dict[str, Tool] = {}
        for tool in self.tools:
            names = _candidates(tool, bare=_is_local(tool) and local[tool.name] == 1)
            name = known.get(tool.id) or next(name for name in names if used.setdefault(name, tool.id) == tool.id)
            named[name] = tool
        return named


def _is_local(tool: Tool) -> bool:
    """Whether a tool may have a bare name. That of a server never has: what it is called may depend on nothing else."""
    return tool.trusted and tool.upstream is None


def _candidates(tool: Tool, *, bare: bool) -> Iterator[str]:
    """The names of a tool for models in the order in which they are tried, made as far as they are needed."""
    prefix = tool.metadata.get("prefix")
    if bare or isinstance(prefix, str):
        yield model_name(tool, prefix="" if bare else str(prefix))
    yield model_name(tool)
    yield model_name(tool, sure=True)


def model_name(tool: Tool, *, prefix: str | None = None, sure: bool = False) -> str:
    """The name shown to a model: with its namespace or with a `prefix`, always within `[A-Za-z0-9_-]{1,64}`.

    Where that is taken, what ends in a digest of the id is `sure` not to be.
    """
    wanted = f"{tool.namespace}__{tool.name}" if prefix is None else f"{prefix}{tool.name}"
    fit = _UNFIT.sub("_", wanted)
    if fit == wanted and len(fit) <= 64 and not sure:
        return fit
    return f"{fit[:55]}_{hashlib.sha256(tool.id.encode()).hexdigest()[:8]}"


class Catalog:
    """All tools of a crib. Views are made once for each set of namespaces and forgotten when a tool comes or goes.

    A tool that has `owners` is in the views of these owners, in place of one of its id that its source has for all;
    those of the owner "" are for whoever has none of their own from their source. Views that are nobody's have one of
    each id.
    """

    def __init__(self, precedence: Sequence[str] = (), aliases: Mapping[str, str] | None = None) -> None:
        self.precedence = tuple(precedence)
        self.aliases = dict(aliases or {})
        self._tools: dict[str, Tool] = {}
        self._shadowed: dict[str, list[Tool]] = {}
        self._views: dict[tuple[tuple[str, ...], tuple[Tool, ...]], CatalogView] = {}
        self._owned: list[Tool] = []
        self._owned_by: dict[str, tuple[Tool, ...]] = {}
        self._declared: set[str] = {"default", "client"}
        self._listeners: list[Callable[[], None]] = []
        self.version = 0

    def listen(self, changed: Callable[[], None]) -> None:
        """Calls `changed` once after every change."""
        self._listeners.append(changed)

    def add(self, tools: Iterable[Tool], *, replace: bool = False) -> None:
        """Registers tools, all or none.

        Raises:
            Refused: `conflict`, an id is taken and nothing says who wins.
        """
        fresh, shadowed = self._copy()
        shared, owned = _by_owners(tools)
        for tool in shared:
            other = fresh.get(tool.id)
            if other is None or replace:
                fresh[tool.id] = tool
            else:
                self._settle(fresh, shadowed, tool)
        self._take(fresh, shadowed, [*self._owned, *owned])

    def exchange(self, old: Iterable[Tool], new: Iterable[Tool]) -> None:
        """What one source has now instead of what it had, in one change; tools of other sources stay where they are.

        Raises:
            Refused: `conflict`, an id is taken and nothing says who wins; nothing is changed.
        """
        fresh, shadowed = self._copy()
        old_shared, old_owned = _by_owners(old)
        new_shared, new_owned = _by_owners(new)
        replaced = set()
        for tool in old_shared:
            hidden = shadowed.get(tool.id, [])
            if tool in hidden:
                hidden.remove(tool)
            elif fresh.get(tool.id) is tool:
                del fresh[tool.id]
                if hidden:
                    fresh[tool.id] = hidden.pop(0)
            else:
                replaced.add(tool.id)
        for tool in new_shared:
            if tool.id not in fresh:
                fresh[tool.id] = tool
            elif tool.id not in replaced:
                self._settle(fresh, shadowed, tool)
        gone = {*old_owned}
        self._take(fresh, shadowed, [*(tool for tool in self._owned if tool not in gone), *new_owned])

    def _copy(self) -> tuple[dict[str, Tool], dict[str, list[Tool]]]:
        return dict(self._tools), {id: list(tools) for id, tools in self._shadowed.items()}

    def _take(self, tools: dict[str, Tool], shadowed: dict[str, list[Tool]], owned: list[Tool]) -> None:
        self._tools, self._shadowed, self._owned = tools, shadowed, owned
        self._declared.update(tool.namespace for tool in (*tools.values(), *owned))
        self._changed()

    def _settle(self, tools: dict[str, Tool], shadowed: dict[str, list[Tool]], two: Tool) -> None:
        """Puts the tool that wins to the front, and the other behind it."""
        one = tools[two.id]
        ranks = {source: rank for rank, source in enumerate(self.precedence)}
        if one.source != two.source and (one.source in ranks or two.source in ranks):
            behind = [one, *shadowed.get(two.id, ()), two]
            behind.sort(key=lambda tool: ranks.get(tool.source, len(ranks)))
            tools[two.id], *shadowed[two.id] = behind
            return
        raise Refused(
            "conflict",
            f"Tool '{two.name}' is already registered in namespace '{two.namespace}'",
            f"sources: {one.source} and {two.source}; rename one, pass replace=True or set precedence",
        )

    def remove(self, ids: Iterable[str]) -> None:
        """Takes tools out; what they shadowed comes back."""
        gone = {*ids}
        self._owned = [tool for tool in self._owned if tool.id not in gone]
        for id in gone:
            self._tools.pop(id, None)
            hidden = self._shadowed.pop(id, [])
            if hidden:
                self._tools[id] = hidden.pop(0)
                self._shadowed[id] = hidden
        self._changed()

    def _changed(self) -> None:
        self._views.clear()
        owned_by: dict[str, list[Tool]] = {}
        for tool in self._owned:
            for owner in tool.owners or ():
                owned_by.setdefault(owner, []).append(tool)
        self._owned_by = {owner: tuple(tools) for owner, tools in owned_by.items()}
        self.version += 1
        for changed in self._listeners:
            changed()

    def get(self, name: str) -> Tool | None:
        """The tool of that id, or of that bare name where only one has it."""
        return self.view(("*",)).names.get(name)

    def some(self, name: str, owner: str | None = None) -> Tool | None:
        """A tool of that id or bare name, in whichever namespace, that an owner may see."""
        view = self.view(("*",), owner)
        return view.names.get(view.ambiguous.get(name, [name])[0])

    def shadowed(self) -> list[tuple[Tool, Tool]]:
        """Tools that cannot be reached, each with the one that stands before it."""
        return [(tool, self._tools[id]) for id, tools in sorted(self._shadowed.items()) for tool in tools]

    def declare(self, namespaces: Iterable[str]) -> None:
        """Makes namespaces known that have no tools yet."""
        self._declared.update(namespaces)

    def sources(self) -> set[str]:
        """The names of the sources that tools say they come from, those of shadowed tools too."""
        behind = (tool for tools in self._shadowed.values() for tool in tools)
        return {tool.source for tool in (*self._tools.values(), *behind, *self._owned)}

    def namespaces(self) -> list[str]:
        """All that is known."""
        return sorted(self._declared)

    def resolve(self, namespaces: Iterable[str]) -> tuple[str, ...]:
        """Normalize namespaces: trimmed, lower case, aliases replaced, globs kept.

        Raises:
            Refused: `not_found`, nobody declares it.
        """
        known: list[str] = []
        for namespace in namespaces:
            name = namespace.strip().lower()
            name = self.aliases.get(name, name)
            if not fnmatch.filter(self._declared, name):
                close = nearest(name, sorted(self._declared))
                raise Refused(
                    "not_found", f"Unknown namespace: {name}", f"known: {', '.join(close or self.namespaces())}"
                )
            if name not in known:
                known.append(name)
        return tuple(known)

    def view(self, namespaces: tuple[str, ...], owner: str | None = None) -> CatalogView:
        """What a session with these namespaces can see: what is for all, and what its owner has."""
        own = self._own(owner)
        view = self._views.get((namespaces, own))
        if view is None:
            tools = self._tools | {tool.id: tool for tool in own if self._is_front(tool)}
            opened = (t for t in tools.values() if any(fnmatch.fnmatchcase(t.namespace, one) for one in namespaces))
            view = self._views[namespaces, own] = CatalogView(opened, own)
            for alias, namespace in self.aliases.items():
                view.also(alias, namespace)
        return view

    def _is_front(self, tool: Tool) -> bool:
        """Whether no other source has its id."""
        other = self._tools.get(tool.id)
        return other is None or other.source == tool.source

    def _own(self, owner: str | None) -> tuple[Tool, ...]:
        """The tools of owners that one of them has; for nobody one of each id, rather one that changed."""
        if not self._owned:
            return ()
        if owner is None:
            ranked = sorted(self._owned, key=lambda tool: (tool.owners == frozenset({""}), not tool.changed))
            return tuple({tool.id: tool for tool in reversed(ranked)}.values())
        own = self._owned_by.get(owner, ())
        sources = {tool.source for tool in own}
        return (*own, *(tool for tool in self._owned_by.get("", ()) if tool.source not in sources))


def _by_owners(tools: Iterable[Tool]) -> tuple[list[Tool], list[Tool]]:
    """The tools that are for all, and those of some owners."""
    shared: list[Tool] = []
    owned: list[Tool] = []
    for tool in tools:
        (shared if tool.owners is None else owned).append(tool)
    return shared, owned
