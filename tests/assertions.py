"""Tests that cannot fail: those without an assertion, those that assert only while there is data, and the like."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.shared import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While

READERS = {"nonempty", "case_data", "recorded"}
"""They fail where there is no data, which makes a loop over it fit; they say nothing of what is tested."""
COLLECTIONS = {"list", "dict", "set", "deque", "Counter"}
CHANGES = {"append", "add", "extend", "update", "insert", "appendleft", "setdefault", "clear"}
CLOCKS = {"time.monotonic", "time.perf_counter", "time.time", "monotonic", "perf_counter"}


class Module:
    """A module of tests: its functions, the methods of its classes, and what it takes from other modules of tests."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree
        self.functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
        self.methods = {
            node.name: {item.name for item in node.body if isinstance(item, Function)}
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        self.timed = {one.name for one in self.functions if not one.name.startswith("test_") and _differs(one)}
        self.imports: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tests":
                self.imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}


class Suite:
    """All modules of tests, and which of their functions assert, themselves or by others."""

    def __init__(self, modules: dict[str, ast.Module]) -> None:
        self.modules = {name: Module(name, tree) for name, tree in modules.items()}
        self._asserting: set[tuple[str, str]] = set()
        rest = [
            (module, function, list(ast.walk(function)))
            for module in self.modules.values()
            for function in module.functions
            if not function.name.startswith("test_")
        ]
        known = -1
        while known < len(self._asserting):
            known = len(self._asserting)
            for module, function, nodes in rest:
                if any(self.asserts(module, node) for node in nodes):
                    self._asserting.add((module.name, function.name))
            rest = [one for one in rest if (one[0].name, one[1].name) not in self._asserting]

    @classmethod
    def read(cls, folder: Path) -> Suite:
        """Read the modules of a folder."""
        return cls({_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))})

    def tests(self) -> Iterator[tuple[Module, Function]]:
        """Yield every test."""
        for module in self.modules.values():
            if module.name.rpartition(".")[2].startswith("test_"):
                yield from ((module, one) for one in module.functions if one.name.startswith("test_"))

    def asserts(self, module: Module, node: ast.AST) -> bool:
        """Return True if this node asserts: a statement, an expectation of pytest, or a function of tests that does."""
        match node:
            case ast.Assert() | ast.Attribute(value=ast.Name(id="pytest"), attr="raises" | "warns" | "fail"):
                return True
            case ast.Name(id=name):
                return name == "expect" or module.imports.get(name, (module.name, name)) in self._asserting
            case ast.Call(func=ast.Attribute(attr=name)):
                return any((place, name) in self._asserting for place in self._places(module, name))
        return False

    def _places(self, module: Module, method: str) -> Iterator[str]:
        """Yield the modules whose classes have such a method, of those that this module defines or imports."""
        if any(method in names for names in module.methods.values()):
            yield module.name
        for place, kind in module.imports.values():
            if place in self.modules and method in self.modules[place].methods.get(kind, ()):
                yield place


def without_assertion(suite: Suite) -> list[str]:
    """Name the tests that assert nothing."""
    return [_place(module, test) for module, test in suite.tests() if not any(_checks(suite, module, test, READERS))]


def without_data(suite: Suite) -> list[str]:
    """Name the tests that pass where there is nothing to loop over."""
    return [
        _place(module, test)
        for module, test in suite.tests()
        if (checks := list(_checks(suite, module, test)))
        and not any(all(_has_items(loop, module, test) for loop in loops) for _, loops in checks)
    ]


def never_read(suite: Suite) -> list[str]:
    """Name the collections that a test fills and never looks at."""
    return [
        f"{_place(module, test)}: {name}"
        for module, test in suite.tests()
        for name in sorted(_collections(test))
        if not any(_reads(test, name))
    ]


def against_the_clock(suite: Suite) -> list[str]:
    """Name the tests that compare the time something took."""
    return [_place(module, test) for module, test in suite.tests() if _compares_time(module, test)]


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _place(module: Module, test: Function) -> str:
    return f"{module.name}:{test.lineno} {test.name}"


def _checks(
    suite: Suite, module: Module, test: Function, apart: set[str] | None = None
) -> Iterator[tuple[ast.AST, list[Loop]]]:
    """Yield what asserts in the body of a test, with the loops around it."""
    for statement in test.body:
        yield from _within(suite, module, statement, [], apart or set())


def _within(
    suite: Suite, module: Module, node: ast.AST, loops: list[Loop], apart: set[str]
) -> Iterator[tuple[ast.AST, list[Loop]]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in apart:
        return
    if suite.asserts(module, node):
        yield node, loops
    for child in ast.iter_child_nodes(node):
        inside = [*loops, node] if isinstance(node, Loop) and child in node.body else loops
        yield from _within(suite, module, child, inside, apart)


def _has_items(loop: Loop, module: Module, test: Function) -> bool:
    return not isinstance(loop, ast.While) and _filled(loop.iter, module, test)


def _filled(node: ast.AST, module: Module, test: Function) -> bool:
    """Return True if the source shows that there is at least one item."""
    match node:
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items) | ast.Dict(values=items):
            return any(not isinstance(item, ast.Starred) or _filled(item.value, module, test) for item in items)
        case ast.Constant(value=str() | bytes() as value):
            return bool(value)
        case ast.Name(id=name):
            return any(_filled(value, module, test) for value in _values(name, module, test))
        case ast.Call(func=ast.Name(id="range" | "nonempty" | "case_data" | "recorded")):
            return True
        case ast.Call(func=ast.Name(id="sorted" | "enumerate" | "reversed" | "zip" | "list" | "map"), args=arguments):
            return any(_filled(argument, module, test) for argument in arguments)
        case ast.Call(func=ast.Attribute(value=value, attr="items" | "values" | "keys" | "split")):
            return _filled(value, module, test)
    return False


def _values(name: str, module: Module, test: Function) -> Iterator[ast.expr]:
    """Yield what a name is bound to once, in the test or else in its module."""
    for place in (list(ast.walk(test)), module.tree.body):
        found = [
            node.value
            for node in place
            if (isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets))
            or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name)
        ]
        if found:
            yield from [value for value in found if value is not None] if len(found) == 1 else []
            return


def _collections(test: Function) -> set[str]:
    """Return the names that are bound to an empty collection."""
    inside = {node for kind in ast.walk(test) if isinstance(kind, ast.ClassDef) for node in ast.walk(kind)}
    names: set[str] = set()
    for node in ast.walk(test):
        if node in inside or not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            targets = target.elts if both and isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if both and isinstance(node.value, ast.Tuple) else [node.value]
            pairs = zip(targets, values, strict=False)
            names |= {one.id for one, value in pairs if isinstance(one, ast.Name) and _empty(value)}
    return names


def _empty(node: ast.expr) -> bool:
    match node:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=func, args=[], keywords=[]):
            return ast.unparse(func).partition("[")[0] in COLLECTIONS
    return False


def _reads(test: Function, name: str) -> Iterator[ast.AST]:
    """Yield where a collection is looked at, rather than changed."""
    for node in ast.walk(test):
        for child in ast.iter_child_nodes(node):
            if not (isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load)):
                continue
            changes = (isinstance(node, ast.Attribute) and node.attr in CHANGES) or (
                isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
            )
            if not changes:
                yield node


def _compares_time(module: Module, test: Function) -> bool:
    names = {
        target.id
        for node in ast.walk(test)
        if isinstance(node, ast.Assign) and _is_timed(node.value, module.timed, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return any(isinstance(node, ast.Assert) and _is_timed(node.test, module.timed, names) for node in ast.walk(test))


def _is_timed(node: ast.AST, timed: set[str], names: set[str]) -> bool:
    """Return True if this computes with the difference of two times."""
    return _differs(node) or any(
        (isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in timed)
        or (isinstance(part, ast.Name) and part.id in names)
        for part in ast.walk(node)
    )


def _differs(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Sub)
        and isinstance(part.left, ast.Call)
        and ast.unparse(part.left.func) in CLOCKS
        for part in ast.walk(node)
    )
