"""A JSON Schema as a tree to walk beside the data; gentle reading and defaults follow it.

It knows the keywords that say where values stand and of which type they are, and leaves all others to validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.schema.nullability import NOTES
from toolcrib.schema.positions import look_up, steps_of
from toolcrib.schema.problems import SchemaError

NOTHING: Any = object()
HEAVIEST = 10_000  # references that double at every step would keep a validator busy for years
EVERY_TYPE: frozenset[type] = frozenset({dict, list, str, int, float, bool, type(None)})
Steps = tuple[str, ...]


class Shape:
    """One schema of the tree: what it says about a value, and the shapes of what stands inside the value."""

    __slots__ = (
        *("accepts", "additional", "bare", "choices", "default", "defaults", "fills", "fills_inside", "items"),
        *("parts", "prefix", "properties", "required", "settled", "takes_null", "types"),
    )

    def __init__(self) -> None:
        self.types: frozenset[str] | None = None
        self.properties: dict[str, Shape] = {}
        self.required: frozenset[str] = frozenset()
        self.additional: Shape | None = None
        self.prefix: list[Shape] = []
        self.items: Shape | None = None
        self.parts: list[Shape] = []  # all hold at once: $ref, allOf
        self.choices: list[list[Shape]] = []  # one of each group holds: anyOf, oneOf
        self.default: Any = NOTHING
        self.accepts: Callable[[Any], bool] = lambda value: True
        self.takes_null: bool | None = None
        # Worked out when all shapes are there, so that most values are passed by without a call:
        self.bare = False  # says nothing but a type
        self.settled: frozenset[type] = EVERY_TYPE  # what reading never changes
        self.defaults: dict[str, Any] = {}
        self.fills = False  # there are defaults here or further inside
        self.fills_inside = False

    def of_property(self, name: str) -> Shape | None:
        """Give the shape of a property, declared or not."""
        return self.properties.get(name, self.additional)

    def of_item(self, index: int) -> Shape | None:
        """Give the shape of an item."""
        return self.prefix[index] if index < len(self.prefix) else self.items

    def refuses_null(self) -> bool:
        """Say whether null is not valid here."""
        if self.takes_null is None:
            self.takes_null = self.accepts(None)
        return not self.takes_null

    def same_place(self) -> Iterator[Shape]:
        """List the shapes that speak about the same value."""
        yield from self.parts
        for group in self.choices:
            yield from group

    def inside(self) -> Iterator[Shape]:
        """List the shapes of what stands inside the value."""
        yield from self.properties.values()
        yield from self.prefix
        yield from (shape for shape in (self.additional, self.items) if shape is not None)


class ShapeBuilder:
    """Makes the shapes of one schema, each once, so that a reference into itself makes a loop."""

    def __init__(self, root: dict[str, Any], acceptor: Callable[[Steps], Callable[[Any], bool]]) -> None:
        self.root = root
        self.acceptor = acceptor
        self.shapes: dict[Steps, Shape] = {}

    def build(self) -> Shape:
        """Make the shape of the whole schema.

        Raises:
            SchemaError: checking one value would take forever.
        """
        root = self._at(())
        shapes = list(self.shapes.values())
        done: set[int] = set()
        for shape in shapes:
            _cut_loops(shape, [], done)
        if _heaviest(shapes) > HEAVIEST:
            raise SchemaError("the schema refers to the same parts too many times")
        settled: dict[int, frozenset[type]] = {}
        defaults: dict[int, Any] = {}
        for shape in shapes:
            shape.settled = _settled(shape, settled)
            shape.defaults = _defaults(shape, defaults)
        _spread_fills(shapes)
        return root

    def counts(self) -> bool:
        """Say whether an integer is asked for anywhere."""
        return any("integer" in (shape.types or ()) for shape in self.shapes.values())

    def _at(self, steps: Steps) -> Shape:
        if steps in self.shapes:
            return self.shapes[steps]
        shape = self.shapes[steps] = Shape()
        node = look_up(self.root, steps)
        # A schema with an identity of its own resolves its references by it; such a part is validated, never mended.
        if isinstance(node, dict) and not (steps and "$id" in node):
            self._fill(shape, node, steps)
        return shape

    def _fill(self, shape: Shape, node: dict[str, Any], steps: Steps) -> None:
        types = node.get("type")
        if types is not None:
            shape.types = frozenset(types if isinstance(types, list) else [types])
        shape.bare = "type" in node and not node.keys() - {"type", "format", *NOTES}
        shape.default = node.get("default", NOTHING)
        shape.required = frozenset(node.get("required", ()))
        shape.accepts = self.acceptor(steps)
        shape.properties = {name: self._at((*steps, "properties", name)) for name in node.get("properties", {})}
        if isinstance(node.get("additionalProperties"), dict) and "patternProperties" not in node:
            shape.additional = self._at((*steps, "additionalProperties"))
        self._fill_array(shape, node, steps)
        self._fill_same_place(shape, node, steps)

    def _fill_array(self, shape: Shape, node: dict[str, Any], steps: Steps) -> None:
        shape.prefix = self._list(node, steps, "prefixItems")
        if isinstance(node.get("items"), dict):
            shape.items = self._at((*steps, "items"))

    def _fill_same_place(self, shape: Shape, node: dict[str, Any], steps: Steps) -> None:
        target = steps_of(node["$ref"]) if isinstance(node.get("$ref"), str) else None
        if target is not None:
            shape.parts.append(self._at(target))
        shape.parts += self._list(node, steps, "allOf")
        shape.choices = [self._list(node, steps, key) for key in ("anyOf", "oneOf") if key in node]

    def _list(self, node: dict[str, Any], steps: Steps, key: str) -> list[Shape]:
        return [self._at((*steps, key, str(index))) for index in range(len(node.get(key, ())))]


def _cut_loops(shape: Shape, around: list[Shape], done: set[int]) -> None:
    """Drop references that come back to the same value: a walk that follows them would never end."""
    if id(shape) in done:
        return
    around = [*around, shape]
    shape.parts = [part for part in shape.parts if part not in around]
    shape.choices = [[branch for branch in group if branch not in around] for group in shape.choices]
    for inner in shape.same_place():
        _cut_loops(inner, around, done)
    done.add(id(shape))


def _heaviest(shapes: list[Shape]) -> int:
    """Count the schemas that one value is checked by, at the place where they are most."""
    known: dict[int, int] = {}

    def weight(shape: Shape) -> int:
        if id(shape) not in known:
            known[id(shape)] = 1 + sum(weight(other) for other in shape.same_place())
        return known[id(shape)]

    return max(map(weight, shapes))


def _settled(shape: Shape, known: dict[int, frozenset[type]]) -> frozenset[type]:
    """Work out the types of values that reading leaves alone, whatever they are; `known` are those of other shapes."""
    if id(shape) not in known:
        settled = EVERY_TYPE - _readable(shape.types)
        if shape.properties or shape.additional:
            settled -= {dict}
        if shape.prefix or shape.items:
            settled -= {list}
        for part in shape.parts:
            settled &= _settled(part, known)
        for group in shape.choices:
            settled &= frozenset().union(*(_allowed(branch) for branch in group if branch.bare))
        known[id(shape)] = settled
    return known[id(shape)]


def _readable(types: frozenset[str] | None) -> frozenset[type]:
    """List the types of values that may be meant as another type."""
    if types is None:
        return frozenset()
    texts = frozenset[type]() if "string" in types else frozenset([str])
    return texts | {float} if "integer" in types and "number" not in types else texts


def _allowed(shape: Shape) -> frozenset[type]:
    names = {"string": str, "boolean": bool, "null": type(None), "number": float}
    return frozenset(names[name] for name in shape.types or () if name in names)


def _defaults(shape: Shape, known: dict[int, Any]) -> dict[str, Any]:
    defaults = {name: _default(place, known) for name, place in shape.properties.items()}
    return {name: default for name, default in defaults.items() if default is not NOTHING}


def _default(shape: Shape, known: dict[int, Any]) -> Any:
    """Give the default of a value, its own or that of a schema it refers to."""
    if id(shape) not in known:
        inner = (_default(part, known) for part in shape.parts)
        own = shape.default
        known[id(shape)] = next((one for one in inner if one is not NOTHING), NOTHING) if own is NOTHING else own
    return known[id(shape)]


def _spread_fills(shapes: list[Shape]) -> None:
    """Mark every shape that leads to a default, however far inside."""
    leads: dict[int, list[Shape]] = {}
    for shape in shapes:
        for other in (*shape.same_place(), *shape.inside()):
            leads.setdefault(id(other), []).append(shape)
    waiting = [shape for shape in shapes if shape.defaults]
    while waiting:
        shape = waiting.pop()
        if not shape.fills:
            shape.fills = True
            waiting += leads.get(id(shape), ())
    for shape in shapes:
        shape.fills_inside = any(place.fills for place in shape.inside())
