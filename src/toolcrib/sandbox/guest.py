"""The WebAssembly of QuickJS-NG, with the few functions exported that a host needs to run code in it.

The published guest keeps the functions of the engine to itself and exports a program that runs one script. Their names
are in its name section, so its table of exports is written anew: nothing else of the binary changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

EXPORTED = (
    "_initialize",
    "malloc",
    "free",
    "JS_NewRuntime",
    "JS_NewContext",
    "JS_SetMaxStackSize",
    "JS_Eval",
    "JS_Call",
    "JS_ParseJSON",
    "JS_GetException",
    "JS_ExecutePendingJob",
    "JS_ToCStringLen2",
)

CUSTOM, EXPORTS = 0, 7
FUNCTION, MEMORY = b"\x00", b"\x02"
HEADER = 8


def guest() -> bytes:
    """The module, ready to be compiled.

    Raises:
        KeyError: this release of the guest has no function of that name.
    """
    wasm = distribution("qjs-wasi-reactor.wasm").locate_file("qjs-wasi-reactor/qjs-wasi-reactor.wasm")
    return exporting(Path(str(wasm)).read_bytes())


def exporting(module: bytes) -> bytes:
    """The same module with its memory and `EXPORTED` as its only exports, and without what only debuggers read."""
    sections = list(_sections(module))
    functions = next(_names(body) for kind, body in sections if kind == CUSTOM and _title(body)[0] == b"name")
    exports = [_text(b"memory") + MEMORY + _number(0)]
    exports += [_text(name.encode()) + FUNCTION + _number(functions[name]) for name in EXPORTED]
    table = _number(len(exports)) + b"".join(exports)
    kept = [(kind, table if kind == EXPORTS else body) for kind, body in sections if kind != CUSTOM]
    return module[:HEADER] + b"".join(bytes([kind]) + _number(len(body)) + body for kind, body in kept)


def _sections(module: bytes) -> Iterator[tuple[int, bytes]]:
    at = HEADER
    while at < len(module):
        size, start = _read(module, at + 1)
        yield module[at], module[start : start + size]
        at = start + size


def _names(section: bytes) -> dict[str, int]:
    """The number of each function by its name; they are the part numbered 1 of the name section."""
    at = _title(section)[1]
    while section[at] != 1:
        size, at = _read(section, at + 1)
        at += size
    count, at = _read(section, _read(section, at + 1)[1])
    numbers = {}
    for _ in range(count):
        number, at = _read(section, at)
        size, at = _read(section, at)
        numbers[section[at : at + size].decode()] = number
        at += size
    return numbers


def _title(section: bytes) -> tuple[bytes, int]:
    size, at = _read(section, 0)
    return section[at : at + size], at + size


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A number in the variable-length form of the format, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _number(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _text(value: bytes) -> bytes:
    return _number(len(value)) + value
