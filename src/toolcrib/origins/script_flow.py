"""The flow of values through a script, read from its text: what the arguments of a call are made of and decided by.

Names stand for one thing in the whole script, whatever their scope, and what flows into a name at one place is in it
everywhere. So more flows than really does, and nothing less. What is not understood is made of everything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

ANY = "*"
"""In place of an argument: whichever; among sources: whatever the script called."""

_EXITS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Assert)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class CallFlow(NamedTuple):
    """The functions whose results the arguments of a call are made of, by argument, and those that decide about it."""

    arguments: Mapping[str, frozenset[str]]
    decided_by: frozenset[str] = frozenset()

    def into(self, argument: str | None) -> frozenset[str]:
        """Return what an argument is made of; None stands for all of them."""
        if argument is None:
            return frozenset().union(*self.arguments.values())
        return self.arguments.get(argument, frozenset()) | self.arguments.get(ANY, frozenset())


UNKNOWN = CallFlow({ANY: frozenset({ANY})}, frozenset({ANY}))


@lru_cache(64)
def flows(code: str) -> Mapping[str, CallFlow] | None:
    """Return the flow into the calls of each name that a script calls or mentions; None where it cannot be read."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    try:
        return _Reader(tree).flows()
    except RecursionError:
        return None


class _Reader:
    """One script: what each name holds, and what decides about each of its nodes."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._holds: dict[str, set[str]] = {}
        self._means: dict[str, set[str]] = {}
        self._parameters: dict[str, list[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._parameters.setdefault(node.name, []).extend(_names(node.args))
            elif isinstance(node, ast.ClassDef):
                inner = [one for one in ast.walk(node) if isinstance(one, ast.arg)]
                self._parameters.setdefault(node.name, []).extend(one.arg for one in inner)

    def flows(self) -> dict[str, CallFlow]:
        """Let values flow until nothing changes, and read off what reaches each call."""
        edges = [edge for node in ast.walk(self._tree) for edge in self._edges(node)]
        size = -1
        while size != (size := sum(map(len, (*self._holds.values(), *self._means.values())))):
            for target, source in edges:
                self._holds.setdefault(target, set()).update(self._sources(source))
                self._means.setdefault(target, set()).update(self._meant(source))
        decided = self._decided()
        arguments: dict[str, dict[str, frozenset[str]]] = {}
        control: dict[str, frozenset[str]] = {}
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Call):
                continue
            called, mentioned = self._meant(node.func), self._meant(*node.args, *_values(node))
            for name in called | mentioned:
                into = arguments.setdefault(name, {})
                for argument, values in _given(node, named=name in called):
                    into[argument] = into.get(argument, frozenset()) | self._sources(*values)
                control[name] = control.get(name, frozenset()) | decided.get(node, frozenset())
        return {name: CallFlow(into, control[name]) for name, into in arguments.items()}

    def _sources(self, *nodes: ast.AST) -> frozenset[str]:
        """The names that something mentions, with what they hold."""
        names: set[str] = set()
        for node in nodes:
            for one in ast.walk(node):
                if isinstance(one, ast.Name):
                    names |= {one.id, *self._holds.get(one.id, ())}
        return frozenset(names)

    def _meant(self, *nodes: ast.AST) -> frozenset[str]:
        """The functions that something stands for: the names in it that are not called there."""
        names: set[str] = set()
        for node in nodes:
            for name in _uncalled(node):
                names |= {name, *self._means.get(name, ())}
        return frozenset(names)

    def _edges(self, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
        """What flows into which name at one node."""
        match node:
            case ast.Try(body=body, handlers=handlers):
                yield from ((one.name, part) for one in handlers if one.name for part in body)
            case ast.Match(subject=value, cases=cases):
                yield from ((name, value) for case in cases for name in _captured(case.pattern))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from ((name, part) for part in node.body)
            case ast.Lambda(args=parameters):  # nobody knows who calls it
                yield from ((name, self._tree) for name in _names(parameters))
            case ast.Call():
                yield from self._called(node)
            case _:
                for target, bound in _bound(node):
                    yield from _both(target, bound)

    def _called(self, node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
        """A method changes what it is called on; a function of the script is given values."""
        arguments = [*node.args, *_values(node)]
        if isinstance(node.func, ast.Attribute):
            yield from ((name, one) for name in _roots(node.func) for one in arguments)
        for called in ast.walk(node.func):
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            for parameter in self._parameters.get(name, ()):
                yield from ((parameter, one) for one in (*arguments, node.func))
        for one in arguments:
            for inner in ast.walk(one):
                if isinstance(inner, ast.Name) and inner.id in self._parameters:
                    yield from ((name, source) for name in self._parameters[inner.id] for source in arguments)

    def _decided(self) -> dict[ast.AST, frozenset[str]]:
        """What decides whether each node runs: the conditions around it, and those of exits before it."""
        deciding: dict[ast.AST, frozenset[str]] = {}
        of_function: dict[str, frozenset[str]] = {}

        def visit(node: ast.AST, by: frozenset[str]) -> None:
            if isinstance(node, _SCOPES) and not isinstance(node, ast.Lambda):
                by |= of_function.get(node.name, frozenset())
            by |= self._exits(node)
            deciding[node] = by
            if isinstance(node, ast.Call):
                for name in self._meant(node.func) & self._parameters.keys():
                    of_function[name] = of_function.get(name, frozenset()) | by
            by |= self._sources(*_conditions(node))
            for inner in ast.iter_child_nodes(node):
                visit(inner, by)

        size = -1
        while size != (size := sum(map(len, of_function.values()))):
            visit(self._tree, frozenset())
        return deciding

    def _exits(self, node: ast.AST) -> frozenset[str]:
        """What decides whether the rest of a function, or of the script, is reached."""
        if not isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
            return frozenset()
        conditions: list[ast.AST] = []
        for inner in ast.walk(node):
            if any(isinstance(one, _EXITS) for one in ast.walk(inner)):
                conditions += [inner] if isinstance(inner, ast.Assert) else _conditions(inner)
        return self._sources(*conditions)


def _uncalled(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
        return
    for inner in ast.iter_child_nodes(node):
        if not isinstance(node, ast.Call) or inner is not node.func:
            yield from _uncalled(inner)


def _conditions(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.For(iter=source) | ast.AsyncFor(iter=source):
            return [source]
        case ast.comprehension(iter=source, ifs=tests):
            return [source, *tests]
        case ast.ListComp(generators=loops) | ast.SetComp(generators=loops) | ast.GeneratorExp(generators=loops):
            return [part for loop in loops for part in _conditions(loop)]
        case ast.DictComp(generators=loops):
            return [part for loop in loops for part in _conditions(loop)]
        case ast.BoolOp(values=values):
            return list(values[:-1])
        case ast.Match(subject=subject):
            return [subject]
        case ast.Try(body=body):
            return list(body)
    return []


def _bound(node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """The targets that a node gives values to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, value) for target in targets]
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            return [(target, value)]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [(target, value)]
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            return [(target, value)]
        case ast.comprehension(target=target, iter=value):
            return [(target, value)]
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            return [(target, value)]
    return []


def _both(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """A value flows into the names of its target; where it may be the same object as others, back into these too."""
    yield from ((name, value) for name in _roots(target))
    if not isinstance(target, ast.Name) and not isinstance(target, ast.Tuple | ast.List | ast.Starred):
        yield from ((name, target) for name in _roots(target))  # the key of `d[k] = v`
    held = value.value if isinstance(value, ast.Await) else value
    if isinstance(held, ast.Name | ast.Attribute | ast.Subscript | ast.List | ast.Tuple | ast.Dict):
        yield from ((name, target) for name in _roots(held))


def _roots(node: ast.AST) -> list[str]:
    """The names at the bottom of targets and of what attributes and items are taken from."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            return _roots(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [name for part in parts for name in _roots(part)]
        case ast.Dict(values=parts):
            return [name for part in parts for name in _roots(part)]
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def _values(node: ast.Call) -> list[ast.expr]:
    return [one.value for one in node.keywords]


def _given(node: ast.Call, *, named: bool) -> Iterator[tuple[str, list[ast.expr]]]:
    """The arguments of a call by name; what stands without one may be any."""
    yield ANY, list(node.args) if named else [*node.args, *_values(node)]
    for one in node.keywords if named else ():
        yield one.arg or ANY, [one.value]


def _names(arguments: ast.arguments) -> list[str]:
    return [one.arg for one in ast.walk(arguments) if isinstance(one, ast.arg)]


def _captured(pattern: ast.pattern) -> list[str]:
    return [name for one in ast.walk(pattern) if (name := getattr(one, "name", None) or getattr(one, "rest", None))]
