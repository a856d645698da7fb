"""`OpenApiDocument`: what was read, and what its references lead to. Nothing is fetched here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin

from toolcrib.schema.positions import steps_of
from toolcrib.sources.openapi.parser import BadDocument, shown

MOST_STEPS = 50
VERSIONS = ("2.0", "3.0", "3.1", "3.2")
NOWHERE = "document:/"
"""The address of a document that was given as data."""


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A part of a document: its value, in which resource and where there."""

    value: Any
    base: str
    where: str

    def __getitem__(self, key: str | int) -> DocumentNode:
        step = str(key).replace("~", "~0").replace("/", "~1")
        return DocumentNode(self.value[key], self.base, f"{self.where}/{step}")

    def get(self, key: str) -> DocumentNode | None:
        """What stands under a key, if anything does."""
        return self[key] if isinstance(self.value, Mapping) and self.value.get(key) is not None else None

    def text(self, key: str) -> str:
        """The text under a key; none is an empty one."""
        value = self.value.get(key) if isinstance(self.value, Mapping) else None
        return value if isinstance(value, str) else ""

    def keys(self) -> list[str]:
        """The keys of an object; none of anything else."""
        return [str(key) for key in self.value] if isinstance(self.value, Mapping) else []

    def items(self) -> list[DocumentNode]:
        """The elements of a list; none of anything else."""
        return [self[index] for index in range(len(self.value))] if isinstance(self.value, list) else []


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """A document and what it refers to, by address.

    `address` is its own; `refused` says why others are not there. `memo` keeps what was worked out of its parts.
    """

    name: str
    address: str
    parts: Mapping[str, Any]
    refused: Mapping[str, str] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            version = self._said_version()
            problem = "has no `openapi`" if version is None else f"is of version {version!r}"
            raise BadDocument(self.name, "", f"it {problem}; versions {', '.join(VERSIONS)} are read")
        if not isinstance(self.root.value.get("paths", {}), Mapping):
            raise BadDocument(self.name, "#/paths", "it is no object")

    @property
    def root(self) -> DocumentNode:
        """The whole document."""
        return DocumentNode(self.parts[self.address], self.address, "#")

    @property
    def version(self) -> str:
        """The version that it is written in: 2.0, 3.0, 3.1 or 3.2."""
        return str(self._said_version())[:3]  # often written as a number

    def _said_version(self) -> Any:
        return self.root.value.get("swagger") or self.root.value.get("openapi")

    @property
    def schemes(self) -> DocumentNode | None:
        """Its security schemes, by name."""
        if self.version == "2.0":
            return self.root.get("securityDefinitions")
        components = self.root.get("components")
        return None if components is None else components.get("securitySchemes")

    def bad(self, node: DocumentNode, problem: str) -> BadDocument:
        """The error that something is wrong there."""
        where = node.where if node.base == self.address else f"{shown(node.base)}{node.where}"
        return BadDocument(self.name, where, problem)

    @contextmanager
    def expecting(self, node: DocumentNode) -> Iterator[None]:
        """Work on a part that may hold anything: a text where there should be a list, say.

        Raises:
            BadDocument: it did.
        """
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise self.bad(node, f"something in it is not what OpenAPI has there ({error})") from None
        except RecursionError:
            raise self.bad(node, "it is nested too deeply") from None

    def follow(self, node: DocumentNode) -> DocumentNode:
        """What a part stands for: itself, or what its `$ref` leads to.

        Raises:
            BadDocument: it leads nowhere, in a circle or to a place that is not read.
        """
        target = node
        for _ in range(MOST_STEPS):
            if not isinstance(target.value, Mapping) or not isinstance(target.value.get("$ref"), str):
                return target
            target = self.target(target)
        raise self.bad(node, f"$ref {shown(node.value['$ref'])!r} leads in a circle")

    def target(self, node: DocumentNode) -> DocumentNode:
        """What a `$ref` leads to, which may be another.

        Raises:
            BadDocument: it leads nowhere, or to a place that is not read.
        """
        reference = node.value["$ref"]
        address, fragment = urldefrag(reference)
        base = urljoin(node.base, address) if address else node.base
        if base not in self.parts:
            why = self.refused.get(base, "it is no document that was read")
            raise self.bad(node, f"$ref {shown(reference)!r} cannot be followed: {why}")
        steps = steps_of(f"#{fragment}")
        target = DocumentNode(self.parts[base], base, "#")
        for step in (None,) if steps is None else steps:
            try:
                target = target[int(step) if isinstance(target.value, list) and step is not None else step]  # type: ignore[index]
            except (KeyError, IndexError, TypeError, ValueError):
                raise self.bad(node, f"$ref {shown(reference)!r} leads nowhere") from None
        return target
