"""The faults that can be put into a file: small changes of its syntax that should change what it does."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
LOGS = ("log", "trace", "logger", "logging", "warnings")
QUIET = ("__repr__", "__str__", "__len__", "__hash__")
"""What is only shown."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One change: the text from `start` to `end` becomes `text`."""

    file: str
    line: int
    function: str
    kind: str
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """The file with the fault in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        """The lines that it changes, before and after."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end) if b"\n" in source[self.end :] else len(source)
        before = source[first:last].decode()
        after = (source[first : self.start] + self.text.encode() + source[self.end : last]).decode()
        marked = [*(f"- {line}" for line in before.split("\n")), *(f"+ {line}" for line in after.split("\n"))]
        return "\n".join(marked)

    def key(self, source: bytes) -> str:
        """What names it, wherever in the file it stands."""
        old = " ".join(source[self.start : self.end].decode().split())
        return f"{self.file} {self.function}: {old} => {' '.join(self.text.split())}"


class Finder(ast.NodeVisitor):
    """Goes through the functions of a file and gathers its faults."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file = file
        self.source = source
        self.faults: list[Fault] = []
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._names: list[str] = []

    def _add(self, node: ast.expr | ast.stmt, kind: str, text: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[node.end_lineno - 1] + node.end_col_offset
        name = ".".join(self._names)
        self.faults.append(Fault(self.file, node.lineno, name, kind, start, end, text))

    # Where it looks

    def visit_Module(self, node: ast.Module | ast.ClassDef) -> None:
        """Functions are looked at; what is declared beside them is not."""
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Methods are looked at; what is declared beside them is not."""
        self._names.append(node.name)
        self.visit_Module(node)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Its statements, without docstring, defaults and types."""
        if node.name in QUIET:
            return
        self._names.append(node.name)
        for part in node.body:
            self.visit(part)
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that `ast` asks for

    def visit_Assert(self, node: ast.Assert) -> None:
        """It tells the type checker something."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts are for people."""

    def visit_If(self, node: ast.If) -> None:
        """Negated; branches for types alone are left out."""
        if _named(node.test) == "TYPE_CHECKING":
            return
        self._add(node.test, "negate", f"not ({ast.unparse(node.test)})")
        self.generic_visit(node)

    # What it changes

    def visit_Expr(self, node: ast.Expr) -> None:
        """A statement that does something is left out."""
        if isinstance(node.value, ast.Constant) or _logs(node.value):
            return
        if not isinstance(node.value, ast.Yield | ast.YieldFrom):
            self._add(node, "drop", "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """A change of something that outlives the function is left out."""
        if self._names[-1] != "__init__" and isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._add(node, "drop", "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """The same of a count."""
        self._add(node, "drop", "pass")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """It is not raised."""
        self._add(node, "raise", "pass")

    def visit_Return(self, node: ast.Return) -> None:
        """Nothing is returned where something was; an early way out is missed."""
        if node.value is None:
            self._add(node, "return", "pass")
        else:
            self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        """It goes on with this one."""
        self._add(node, "continue", "pass")

    def visit_Compare(self, node: ast.Compare) -> None:
        """The first comparison is another one."""
        other = COMPARISONS.get(type(node.ops[0]))
        if other is not None:
            changed = ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)
            self._add(node, "compare", f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """`and` for `or`, and each part of it missing."""
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, "and/or", f"({ast.unparse(ast.BoolOp(other, node.values))})")
        for number in range(len(node.values)):
            rest = [value for at, value in enumerate(node.values) if at != number]
            left = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            self._add(node, "guard", f"({ast.unparse(left)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Without its `not`."""
        if isinstance(node.op, ast.Not):
            self._add(node, "not", f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Plus for minus."""
        if isinstance(node.op, ast.Sub):
            self._add(node, "sign", f"({ast.unparse(ast.BinOp(node.left, ast.Add(), node.right))})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`min` for `max`; texts of logs are left alone."""
        if _logs(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "any", "all"):
            other = {"min": "max", "max": "min", "any": "all", "all": "any"}[node.func.id]
            self._add(node.func, "choice", other)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A flag the other way, a small number one larger."""
        if isinstance(node.value, bool):
            self._add(node, "flag", str(not node.value))
        elif isinstance(node.value, int) and 0 <= node.value <= 2:
            self._add(node, "number", str(node.value + 1))


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _logs(node: ast.expr) -> bool:
    """Whether it only writes to a log."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and _named(func.value).lstrip("_") in LOGS


def faults(file: str, source: bytes, keys: Collection[str] | None = None) -> Iterator[Fault]:
    """All faults of a file that are still Python, or those of some keys."""
    finder = Finder(file, source)
    finder.visit(ast.parse(source))
    for fault in finder.faults:
        if keys is not None and fault.key(source) not in keys:
            continue  # to compile a file for each of its faults takes longest
        try:
            compile(fault.apply(source), file, "exec")
        except SyntaxError:
            continue
        yield fault
